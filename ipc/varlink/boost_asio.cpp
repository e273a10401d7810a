// Boost.Asio is compiled here, once, instead of in every file that includes it.
#include <boost/asio/impl/src.hpp>
