#!/usr/bin/env python3
"""A new author: a policy that `terranectl policy new` wrote is linted and tested by the commands that it prints, put
in force, and acts in a running daemon. Nothing is known here but what terranectl says.

usage: new_author_test.py TERRANED TERRANECTL TERRANE_BENCH     (standard library only; exit code 77: no Vulkan device)
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TERRANED, TERRANECTL, BENCH = (os.path.abspath(p) for p in sys.argv[1:4])
PATIENCE = 90  # seconds; generous, since the machine may be busy


class NewAuthorTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.mine, self.installed = self.folder / "mine", self.folder / "policies"
        self.mine.mkdir()
        self.installed.mkdir()
        model = self.folder / "tiny.gguf"
        subprocess.run([BENCH, "synth", "--shape", "tiny", "--quant", "Q4_1", "--out", str(model)], check=True, capture_output=True)
        self.socket = self.folder / "control.sock"
        (self.folder / "terraned.yaml").write_text(
            f"apiVersion: terrane/v1\nmodel: {{file: {model}, context: 256, sessions: 2}}\n"
            f"devices: [{{name: vulkan}}, {{name: cpu}}]\npolicies: [{self.installed}]\n"
            f"telemetry: {{period: 100ms, readings_file: {self.folder}/readings.yaml}}\n"
            f"control: {{socket: {self.socket}}}\ncache: {self.folder}/cache\ntune: off\n")
        self.log = open(self.folder / "log", "w+")
        self.daemon = subprocess.Popen([TERRANED, "--config", str(self.folder / "terraned.yaml")], stderr=self.log)
        self.addCleanup(self.stop)
        self.until(lambda: "ready" in self.ctl("status").stdout, "the daemon to be ready")

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait(PATIENCE)
        self.log.close()

    def said(self):
        return (self.folder / "log").read_text()

    def ctl(self, *words):
        return subprocess.run([TERRANECTL, *words], capture_output=True, text=True, cwd=self.mine,
                              env={**os.environ, "TERRANE_SOCKET": str(self.socket)})

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if condition():
                return
            if self.daemon.poll() is not None:
                break
            time.sleep(0.05)
        self.fail(f"waited for {what}; the daemon said:\n{self.said()}")

    def becomes_an_author(self, *options):
        new = self.ctl("policy", "new", "mine", *options)
        self.assertEqual(new.returncode, 0, new.stderr)
        next_steps = [line.split("   ")[0].strip() for line in new.stdout.splitlines()
                      if line.startswith("  terranectl ")]
        self.assertGreaterEqual(len(next_steps), 4, new.stdout)
        *tries, in_force = next_steps
        for step in tries:
            done = self.ctl(*shlex.split(step)[1:])
            self.assertEqual(done.returncode, 0, step + "\n" + done.stdout + done.stderr)
        for file in self.mine.iterdir():
            shutil.copy(file, self.installed)
        done = self.ctl(*shlex.split(in_force)[1:])
        self.assertEqual(done.returncode, 0, in_force + "\n" + done.stdout + done.stderr)
        self.assertIn("mine", self.ctl("policy", "ls").stdout)
        # Someone else takes the card's memory.
        (self.folder / "readings.yaml").write_text("vulkan: {vram.used_ratio: 97%}\n")
        self.until(lambda: "for policy mine" in self.ctl("placement").stdout
                   or "policy mine" in self.ctl("placement").stdout, "the policy to act")
        self.assertIn("policy 'mine' engaged for vulkan", self.said())
        why = self.ctl("why", "layer.0.attn").stdout
        self.assertIn("mine", why)
        self.assertIn("mine", self.ctl("explain", "1").stdout)

    def test_in_yaml(self):
        self.becomes_an_author()

    def test_in_lua(self):
        self.becomes_an_author("--lua")


if __name__ == "__main__":
    listed = subprocess.run([TERRANED, "--list-devices"], capture_output=True, text=True)
    if "vulkan" not in listed.stdout:
        print("no Vulkan device")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
