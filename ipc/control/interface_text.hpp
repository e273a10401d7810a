// The text of io.terrane.Control, as the server gives it out; the build puts the .varlink file in.
#pragma once

namespace terrane::ipc {

extern const char* const control_interface_text;

}  // namespace terrane::ipc
