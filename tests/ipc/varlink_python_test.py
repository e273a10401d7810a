"""The stock Python package `varlink` introspects the control socket and calls it.

usage: varlink_python_test.py TEST_SERVER INTERFACE_FILE

Exit status 77, with the reason, when the package is missing.
"""
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import varlink
except ImportError:
    print("skipped: the Python package varlink is not installed for", sys.executable)
    sys.exit(77)

INTERFACE = "io.terrane.Control"


class stock_client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="terrane-")
        path = os.path.join(cls.folder.name, "control.sock")
        cls.server = subprocess.Popen([SERVER, path], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        assert cls.server.stdout.readline() == "ready\n"
        cls.client = varlink.Client.new_with_address("unix:" + path)

    @classmethod
    def tearDownClass(cls):
        cls.client.cleanup()
        cls.server.stdin.close()
        status = cls.server.wait(timeout=10)
        cls.server.stdout.close()
        cls.folder.cleanup()
        assert status == 0, status

    def setUp(self):
        self.control = self.client.open(INTERFACE)
        self.addCleanup(self.control.close)

    def test_it_is_introspected(self):
        with self.client.open("org.varlink.service") as service:
            info = service.GetInfo()
            self.assertEqual(info["product"], "terraned")
            self.assertIn(INTERFACE, info["interfaces"])
            served = service.GetInterfaceDescription(INTERFACE)["description"]
        with open(INTERFACE_FILE, encoding="utf-8") as file:
            self.assertEqual(served, file.read())
        parsed = varlink.Interface(served)
        self.assertEqual(parsed.name, INTERFACE)
        for method in ("Status", "Generate", "Move", "Monitor", "Explain"):
            parsed.get_method(method)

    def test_every_method_without_parameters_gives_what_the_interface_says(self):
        self.assertEqual(self.control.Status()["state"], "ready")
        self.assertEqual([d["kind"] for d in self.control.Devices()["devices"]],
                         ["cpu", "vulkan"])
        self.assertEqual(self.control.Placement()["parts"][0]["part"], "embedding")
        self.assertEqual(self.control.Telemetry()["readings"][0]["stale"], False)
        self.assertEqual(self.control.Sessions()["sessions"][0]["id"], 3)
        self.assertEqual(self.control.PolicyList()["policies"][0]["name"], "vram-spill")

    def test_a_reply_streams(self):
        replies = list(self.control.Generate(prompt="tell", max_tokens=5, _more=True))
        self.assertEqual("".join(r["text"] for r in replies), "Once upon a time ä€")
        self.assertEqual(replies[0]["session"], 3)
        self.assertEqual(replies[-1]["summary"]["stop"], "end_of_text")
        whole = self.control.Generate(messages=[{"role": "user", "content": "tell"}],
                                      sampling={"temperature": 0.0, "seed": 7})
        self.assertEqual(whole["text"], "Once upon a time ä€")

    def test_a_move_is_watched(self):
        revision = self.control.Placement()["revision"]
        replies = list(self.control.Move(["head"], "cpu", revision, _more=True))
        self.assertEqual([r["state"] for r in replies], ["preparing", "committed"])
        self.assertEqual(replies[-1]["revision"], revision + 1)

    def test_errors_have_names_and_parameters(self):
        with self.assertRaises(varlink.VarlinkError) as caught:
            self.control.Move(["head"], "cpu", 1)
        self.assertEqual(caught.exception.error(), INTERFACE + ".StaleRevision")
        self.assertEqual(caught.exception.parameters()["given"], 1)
        with self.assertRaises(varlink.VarlinkError) as caught:
            self.control.Generate(prompt="a", max_tokens=0)
        self.assertEqual(caught.exception.error(), "org.varlink.service.InvalidParameter")
        with self.assertRaises(varlink.VarlinkError) as caught:
            self.control.PolicyReload()
        self.assertEqual(caught.exception.parameters()["diagnostics"][0]["line"], 3)

    def test_events_arrive(self):
        watching = self.control.Monitor(_more=True)
        first = next(watching)
        self.assertEqual(first["sequence"], 0)
        self.server.stdin.write("the card is warm\n")
        self.server.stdin.flush()
        second = next(watching)
        self.assertEqual(second["sequence"], 1)
        self.assertEqual(second["lost"], 0)
        self.assertEqual(second["event"]["message"], "the card is warm")


if __name__ == "__main__":
    INTERFACE_FILE = os.path.abspath(sys.argv.pop())
    SERVER = os.path.abspath(sys.argv.pop())
    unittest.main(verbosity=2)
