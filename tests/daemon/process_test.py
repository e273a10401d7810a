#!/usr/bin/env python3
"""terraned as a process: readiness, watchdog, socket activation, reload, bad input, sudden ends.

usage: process_test.py TERRANED TERRANECTL TERRANE_BENCH     (standard library only)
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TERRANED, TERRANECTL, BENCH = (os.path.abspath(p) for p in sys.argv[1:4])
PATIENCE = 60  # seconds; generous, since the machine may be busy


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


class Client:
    """One connection that speaks Varlink."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.buffer = b""

    def send(self, method, more=False, **parameters):
        call = {"method": "io.terrane.Control." + method, "parameters": parameters}
        if more:
            call["more"] = True
        self.socket.sendall(json.dumps(call).encode() + b"\0")

    def receive(self):
        while b"\0" not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the daemon closed the connection")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.send(method, **parameters)
        return self.receive()

    def close(self):
        self.socket.close()


class Daemon:
    def __init__(self, folder, model, devices="[{name: cpu}]", extra="", control="", tune="off", environment=None,
                 wrap=()):
        self.folder = folder
        self.socket = folder / "control.sock"
        (folder / "policies").mkdir(exist_ok=True)
        (folder / "terraned.yaml").write_text(
            f"apiVersion: terrane/v1\nmodel: {{file: {model}, context: 256, sessions: 2}}\n"
            f"devices: {devices}\npolicies: [{folder}/policies]\n"
            f"telemetry: {{period: 50ms, readings_file: {folder}/readings.yaml}}\n"
            f"control: {{socket: {self.socket}{control}}}\ncache: {folder}/cache\ntune: {tune}\n{extra}")
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen(
            [*wrap, TERRANED, "--config", str(folder / "terraned.yaml")], stderr=self.log,
            env={**os.environ, **(environment(self.log) if callable(environment) else environment or {})})

    def said(self):
        return (self.folder / "log").read_text()

    def client(self):
        return Client(self.socket)

    def status(self):
        return self.client().call("Status")["parameters"]

    def comes_to(self, wanted):
        def state():
            if self.process.poll() is not None:
                raise AssertionError("terraned ended: " + self.said())
            try:
                state = self.status()["state"]
            except (ConnectionError, FileNotFoundError, ConnectionRefusedError):
                return False
            if state == "failed" != wanted:
                raise AssertionError("terraned has no model: " + self.said())
            return state == wanted
        until(state, "the daemon to be " + wanted)
        return self

    def ready(self):
        return self.comes_to("ready")

    def ctl(self, *arguments):
        return subprocess.run([TERRANECTL, "--socket", str(self.socket), *arguments], capture_output=True, text=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
        self.log.close()


POLICY = """apiVersion: terrane/v1
policies:
  - name: {name}
    for_each: gpu
    enter: {{metric: vram.used_ratio, above: 92%, held: 1s}}
    leave: {{metric: vram.used_ratio, below: 84%, held: 2s}}
    do: {{move: layers, order: top_down, until: leave, to: cpu}}
"""


def first_readings(daemon):
    """Readings once the CPU's memory is among them: drivers are asked beside the loop, so the first
    snapshots may be without their answers."""
    def all_there():
        readings = daemon.client().call("Telemetry")["parameters"]["readings"]
        return readings if any(r["object"] == "cpu" and r["metric"] == "vram.total" for r in readings) else None
    return until(all_there, "the CPU's memory among the readings")


class ProcessTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.models.name) / "tiny.gguf"
        subprocess.run([BENCH, "synth", "--shape", "tiny", "--quant", "Q4_1", "--out", cls.model],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.daemons = []

    def tearDown(self):
        for d in self.daemons:
            d.stop()
        self.temporary.cleanup()

    def start(self, **options):
        d = Daemon(self.folder, options.pop("model", self.model), **options)
        self.daemons.append(d)
        return d

    def test_says_ready_and_feeds_the_watchdog(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify"))
        notify.settimeout(PATIENCE)
        d = self.start(environment={"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "30000000"})
        seen = ""
        while "READY=1" not in seen:
            seen += notify.recv(4096).decode() + "\n"
        self.assertIn("Loading weights", seen)
        pings = 0
        while pings < 3:
            pings += notify.recv(4096).decode().count("WATCHDOG=1")
        d.process.send_signal(signal.SIGTERM)
        seen = ""
        while "STOPPING=1" not in seen:
            seen += notify.recv(4096).decode() + "\n"
        self.assertEqual(d.process.wait(PATIENCE), 0)

    def test_takes_a_socket_that_is_passed_in(self):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.folder / "passed.sock"))
        listening.listen()

        # LISTEN_PID must be the daemon's own, so a shell sets it after the fork.
        (self.folder / "start.sh").write_text('export LISTEN_PID=$$ LISTEN_FDS=1\nexec "$@"\n')
        d = Daemon.__new__(Daemon)
        d.folder, d.socket = self.folder, self.folder / "passed.sock"
        (self.folder / "terraned.yaml").write_text(f"model: {{file: {self.model}, context: 128}}\n"
                                                   f"cache: {self.folder}/cache\ntune: off\n")
        d.log = open(self.folder / "log", "w+")
        os.set_inheritable(listening.fileno(), True)
        d.process = subprocess.Popen(
            ["sh", str(self.folder / "start.sh"), TERRANED, "--config", str(self.folder / "terraned.yaml")],
            stderr=d.log, close_fds=False, preexec_fn=lambda: os.dup2(listening.fileno(), 3))
        self.daemons.append(d)
        d.ready()
        d.stop()
        self.assertTrue((self.folder / "passed.sock").exists(), "a socket of systemd's is not ours to remove")

    def test_reload_keeps_the_old_policies_when_the_new_have_a_fault(self):
        (self.folder / "policies").mkdir()
        file = self.folder / "policies" / "one.yaml"
        file.write_text(POLICY.format(name="first"))
        d = self.start().ready()
        file.write_text(POLICY.format(name="second").replace("above: 92%", "abuve: 92%"))
        error = d.client().call("PolicyReload")
        self.assertEqual(error["error"], "io.terrane.Control.PolicyInvalid")
        diagnostic = error["parameters"]["diagnostics"][0]
        self.assertEqual(diagnostic["line"], 5)
        self.assertGreater(diagnostic["column"], 1)
        self.assertIn("above", diagnostic["message"])
        names = [p["name"] for p in d.client().call("PolicyList")["parameters"]["policies"]]
        self.assertEqual(names, ["first", "promotion"])
        file.write_text(POLICY.format(name="second"))
        d.process.send_signal(signal.SIGHUP)
        until(lambda: d.client().call("PolicyList")["parameters"]["policies"][0]["name"] == "second", "the reload")
        file.write_text("policies: 3\n")
        d.process.send_signal(signal.SIGHUP)
        until(lambda: any("the old set stays in force" in w and "one.yaml:1:" in w for w in d.status()["warnings"]), "the refusal in Status")
        file.write_text(POLICY.format(name="third"))
        d.process.send_signal(signal.SIGHUP)
        until(lambda: not any("the old set" in w for w in d.status()["warnings"]), "the warning to go")

    def test_kernels_are_tuned_once_and_when_asked(self):
        first = self.start(tune="first_use").ready()
        self.assertIn("cpu: its kernels are timed, once", first.said())
        shown = first.ctl("tune", "--show")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for expected in ("linear", "attention", "few rows, K 576", "DEFAULT"):
            self.assertIn(expected, shown.stdout)
        first.stop()
        again = self.start(tune="first_use").ready()
        self.assertNotIn("timed", again.said())
        kernels = again.client().call("Tuning")["parameters"]["kernels"]
        self.assertGreaterEqual(len(kernels), 8)
        redone = again.ctl("tune", "cpu")
        self.assertEqual(redone.returncode, 0, redone.stderr)
        self.assertIn("kernels were timed", again.said())
        self.assertNotIn("not timed", redone.stdout)
        again.stop()
        # What an administrator had timed is used, also where nothing is timed at the start.
        off = self.start().ready()
        self.assertNotIn("timed", off.said())
        self.assertEqual(len(off.client().call("Tuning")["parameters"]["kernels"]), len(kernels))

    def test_faulty_policies_stop_a_start_with_a_clear_message(self):
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "bad.lua").write_text("policy \"x\" {\n  for_each = \"moon\",\n}\n")
        d = self.start()
        self.assertEqual(d.process.wait(PATIENCE), 1)
        self.assertIn("bad.lua:", d.said())

    def test_a_second_daemon_is_refused_and_a_stale_socket_taken_over(self):
        first = self.start().ready()
        second = Daemon(self.folder, self.model)
        self.assertEqual(second.process.wait(PATIENCE), 1)
        self.assertIn("control.sock", second.said())
        second.log.close()
        first.process.kill()
        first.process.wait()
        third = self.start().ready()
        self.assertEqual(third.client().call("Status")["parameters"]["state"], "ready")

    def test_a_bad_model_is_named_and_the_daemon_lives(self):
        bad = self.folder / "bad.gguf"
        data = self.model.read_bytes()
        for what, content, expected in (("truncated", data[: len(data) // 2], "bad.gguf"),
                                        ("no GGUF", b"hello", "bad.gguf"),
                                        ("architecture", data.replace(b"llama", b"lhama", 1), "lhama")):
            with self.subTest(what):
                bad.write_bytes(content)
                d = Daemon(self.folder, bad)
                self.daemons.append(d)
                status = d.comes_to("failed").status()
                self.assertIn(expected, status["reason"])
                self.assertEqual(d.said().count(status["reason"]), 1)
                shown = d.ctl("status")
                self.assertEqual(shown.returncode, 0)
                self.assertIn("could not be loaded: " + status["reason"], shown.stdout)
                for command in (["devices"], ["placement"], ["telemetry"], ["generate", "a"], ["move", "head", "cpu"],
                                ["policy", "ls"], ["policy", "reload"]):
                    refused = d.ctl(*command)
                    self.assertEqual(refused.returncode, 1, command)
                    self.assertIn(status["reason"], refused.stderr)
                error = d.client().call("Generate", prompt="a")
                self.assertEqual((error["error"], error["parameters"]["state"]),
                                 ("io.terrane.Control.NotReady", "failed"))
                d.process.send_signal(signal.SIGTERM)
                self.assertEqual(d.process.wait(PATIENCE), 0)

    def test_a_model_that_is_put_right_is_loaded_at_a_signal(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify"))
        notify.settimeout(PATIENCE)
        self.addCleanup(notify.close)
        heard = []

        def hears(*words):
            while not any(all(word in line for word in words) for line in heard):
                heard.append(notify.recv(4096).decode())
            heard.clear()

        model = self.folder / "missing.gguf"
        (self.folder / "policies").mkdir()
        d = self.start(model=model, environment={"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "30000000"})
        hears("READY=1", "STATUS=No model: ", "missing.gguf")
        hears("WATCHDOG=1")
        d.process.send_signal(signal.SIGHUP)
        hears("READY=1", "STATUS=No model: ", "missing.gguf")
        (self.folder / "policies" / "one.yaml").write_text(POLICY.format(name="late"))
        os.symlink(self.model, model)
        d.process.send_signal(signal.SIGHUP)
        hears("READY=1", "STATUS=Ready: ")
        hears("WATCHDOG=1")
        self.assertEqual(d.status()["state"], "ready")
        self.assertIsNone(d.status().get("reason"))
        self.assertEqual(d.client().call("PolicyList")["parameters"]["policies"][0]["name"], "late")
        self.assertEqual(d.client().call("Generate", prompt="a", max_tokens=2)["parameters"]["summary"]["generated_tokens"], 2)

    def test_a_stop_while_the_model_is_loaded_is_taken_at_once(self):
        d = self.start()
        until(lambda: "serving" in d.said(), "the daemon to serve")
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(d.process.wait(PATIENCE), 0)
        self.assertIn("stopping", d.said())

    def test_the_watchdog_is_fed_between_rare_looks(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify"))
        notify.settimeout(PATIENCE)
        self.addCleanup(notify.close)
        d = Daemon(self.folder, self.model)
        d.stop()
        text = (self.folder / "terraned.yaml").read_text().replace("period: 50ms", "period: 10m")
        (self.folder / "rare.yaml").write_text(text)
        said = open(self.folder / "rare.log", "w")
        rare = subprocess.Popen([TERRANED, "--config", str(self.folder / "rare.yaml")], stderr=said,
                                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "100000"})
        self.addCleanup(said.close)
        self.addCleanup(rare.wait)
        self.addCleanup(rare.kill)
        seen = ""
        while "READY=1" not in seen:
            seen += notify.recv(4096).decode() + "\n"
        pings = 0
        while pings < 3:
            pings += notify.recv(4096).decode().count("WATCHDOG=1")

    def test_refuses_by_name_with_the_numbers(self):
        d = self.start().ready()
        c = d.client()
        error = c.call("Generate", prompt="word " * 400)
        self.assertEqual(error["error"], "io.terrane.Control.ContextExceeded")
        self.assertEqual(error["parameters"]["context_tokens"], 256)
        self.assertGreater(error["parameters"]["prompt_tokens"], 256)
        self.assertEqual(c.call("Move", parts=["layer.9.moon"], device="cpu")["error"], "io.terrane.Control.UnknownPart")
        unknown = c.call("Move", parts=["head"], device="cuda:7")
        self.assertEqual(unknown["error"], "io.terrane.Control.UnknownDevice")
        self.assertEqual(unknown["parameters"]["known"], ["cpu"])
        stale = c.call("Move", parts=["head"], device="cpu", revision=99)
        self.assertEqual(stale["error"], "io.terrane.Control.StaleRevision")
        self.assertEqual((stale["parameters"]["given"], stale["parameters"]["current"]), (99, 1))
        self.assertEqual(c.call("CloseSession", session=77)["error"], "io.terrane.Control.UnknownSession")
        self.assertEqual(c.call("Explain", id=5)["error"], "io.terrane.Control.UnknownDecision")

    def test_a_client_that_disappears_leaves_nothing_behind(self):
        d = self.start().ready()
        c = d.client()
        c.send("Generate", more=True, prompt="one two three", max_tokens=200)
        session = c.receive()["parameters"]["session"]
        self.assertGreater(session, 0)
        c.close()
        watcher = d.client()
        until(lambda: watcher.call("Sessions")["parameters"]["sessions"] == [], "the session to end")
        until(lambda: watcher.call("Devices")["parameters"]["devices"][0]["kv_bytes"] == 0, "its pages to return")

    def test_monitor_tells_sessions_and_warnings(self):
        d = self.start().ready()
        watcher = d.client()
        watcher.send("Monitor", more=True)
        watcher.receive()

        def next_of(kind):
            while True:
                event = watcher.receive()["parameters"]["event"]
                if event["kind"] == kind:
                    return event

        c = d.client()
        session = c.call("Generate", prompt="a", max_tokens=1, keep=True)["parameters"]["session"]
        self.assertEqual(next_of("session_opened")["session"], session)
        c.call("CloseSession", session=session)
        closed = next_of("session_closed")
        self.assertEqual(closed["session"], session)
        self.assertIn(f"of user {os.getuid()}", closed["message"])
        (self.folder / "readings.yaml").write_text("moon: {temp_c: 1C}\n")
        message = next_of("warning")["message"]
        self.assertIn("moon", message)
        self.assertIn(message, d.status()["warnings"])
        self.assertEqual(d.said().count(message), 1)

    def test_readings_name_their_source(self):
        (self.folder / "readings.yaml").write_text("cpu: {temp_c: 77C}\n")
        d = self.start().ready()
        readings = first_readings(d)
        sources = {(r["object"], r["metric"]): r["source"] for r in readings}
        self.assertEqual(sources["cpu", "temp_c"], "readings file")
        self.assertEqual(sources["cpu", "vram.total"], "device memory")
        self.assertEqual(sources["host", "host.memory_total"], "host memory")

    def test_a_killed_daemon_comes_back_with_the_same_bits(self):
        d = self.start(extra="replies: {temperature: 0, hash_logits: true}\n").ready()
        first = d.client().call("Generate", prompt="a b c", max_tokens=20)["parameters"]
        c = d.client()
        c.send("Generate", more=True, prompt="a b c", max_tokens=200)
        c.receive()
        d.process.kill()
        d.process.wait()
        again = self.start(extra="replies: {temperature: 0, hash_logits: true}\n").ready()
        second = again.client().call("Generate", prompt="a b c", max_tokens=20)["parameters"]
        self.assertEqual(first["summary"]["logits_hash"], second["summary"]["logits_hash"])

    def test_a_killed_daemon_leaves_a_recording_that_replays(self):
        (self.folder / "readings.yaml").write_text("cpu: {temp_c: 95C}\n")
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "hot.yaml").write_text(POLICY.format(name="hot").replace("for_each: gpu", "for_each: cpu").replace(
            "vram.used_ratio, above: 92%, held: 1s", "temp_c, above: 90C").replace("vram.used_ratio, below: 84%, held: 2s", "temp_c, below: 80C").replace("until: leave", "until: all"))
        for life in (1, 2):
            d = self.start(extra=f"record: {{directory: {self.folder}/record}}\n").ready()
            trace = self.folder / "record" / f"trace-{life:08}.jsonl"
            until(lambda: trace.exists() and '"decision":' in trace.read_text(), "a recording")
            d.process.kill()
            d.process.wait(PATIENCE)
        replayed = subprocess.run([TERRANECTL, "policy", "replay", str(self.folder / "record")], capture_output=True, text=True)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        self.assertEqual(replayed.stdout.count("all the same"), 2, replayed.stdout)
        self.assertRegex(replayed.stdout, r"[1-9]\d* with decisions")

    def test_orders_outlive_a_kill_and_a_damaged_state_is_left_aside(self):
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "one.yaml").write_text(POLICY.format(name="first"))
        state = self.folder / "state" / "policies.state"
        extra = f"state: {self.folder}/state\n"
        d = self.start(extra=extra).ready()
        self.assertEqual(d.ctl("policy", "disable", "first").returncode, 0)
        until(lambda: state.exists() and '"first"' in state.read_text().splitlines()[0], "the state to be kept")
        d.process.kill()
        d.process.wait(PATIENCE)
        d = self.start(extra=extra).ready()
        self.assertFalse(d.client().call("PolicyList")["parameters"]["policies"][0]["enabled"])
        d.stop()
        state.write_text(state.read_text()[:-20])
        d = self.start(extra=extra).ready()
        self.assertTrue(any("its sum is another" in w and "left-aside" in w for w in d.status()["warnings"]), d.status()["warnings"])
        self.assertTrue(d.client().call("PolicyList")["parameters"]["policies"][0]["enabled"])
        self.assertTrue((self.folder / "state" / "policies.state.left-aside").exists())

    def test_an_order_that_was_answered_outlives_a_kill_at_once(self):
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "one.yaml").write_text(POLICY.format(name="first"))
        extra = f"state: {self.folder}/state\n"
        for enabled in (False, True, False):
            d = self.start(extra=extra).ready()
            self.assertEqual(d.ctl("policy", "enable" if enabled else "disable", "first").returncode, 0)
            d.process.kill()
            d.process.wait(PATIENCE)
            d = self.start(extra=extra).ready()
            self.assertEqual(d.client().call("PolicyList")["parameters"]["policies"][0]["enabled"], enabled)
            d.stop()

    def test_a_state_that_cannot_be_read_is_kept_aside(self):
        state = self.folder / "state" / "policies.state"
        state.mkdir(parents=True)
        (state / "precious").write_text("x")
        d = self.start(extra=f"state: {self.folder}/state\n").ready()
        told = [w for w in d.status()["warnings"] if "not a regular file" in w]
        self.assertEqual(len(told), 1, d.status()["warnings"])
        self.assertIn("policies.state.unreadable", told[0])
        self.assertTrue((self.folder / "state" / "policies.state.unreadable" / "precious").exists())

    def test_two_daemons_do_not_share_a_state_or_a_recording(self):
        for what, extra in (("state", f"state: {self.folder}/state\n"), ("record", f"record: {{directory: {self.folder}/trace}}\n")):
            first = self.start(extra=extra).ready()
            if what == "state":  # also where the folder was removed meanwhile
                shutil.rmtree(self.folder / what)
                self.assertEqual(first.ctl("policy", "disable", "promotion").returncode, 0)
                self.assertTrue((self.folder / what / "policies.state").exists())
            else:
                # Gone at once: what is written into it meanwhile would keep it from being removed.
                gone = (self.folder / "trace").rename(self.folder / "gone")
                shutil.rmtree(gone, ignore_errors=True)
                until(lambda: list((self.folder / "trace").glob("trace-*")), "another recording")
            other = self.folder / ("other-" + what)
            other.mkdir()
            second = Daemon(other, self.model, extra=extra)
            self.assertEqual(second.process.wait(PATIENCE), 1)
            self.assertIn(f"is used by another terraned (process {first.process.pid})", second.said())
            second.log.close()
            first.process.kill()  # nothing of it stays locked
            first.process.wait(PATIENCE)
            third = Daemon(other, self.model, extra=extra)
            self.daemons.append(third)
            third.ready()
            third.stop()

    def test_two_daemons_do_not_share_what_a_link_of_their_state_leads_to(self):
        first = self.start(extra=f"state: {self.folder}/state\n").ready()
        self.assertEqual(first.ctl("policy", "disable", "promotion").returncode, 0)
        other = self.folder / "other"
        (other / "state").mkdir(parents=True)
        (other / "state" / "policies.state").symlink_to(self.folder / "state" / "policies.state")
        second = Daemon(other, self.model, extra=f"state: {other}/state\n")
        self.assertEqual(second.process.wait(PATIENCE), 1)
        self.assertIn(f"{self.folder}/state is used by another terraned (process {first.process.pid})", second.said())
        second.log.close()

    def test_a_reply_whose_session_is_closed_says_so(self):
        d = self.start().ready()
        reader = subprocess.Popen([TERRANECTL, "--socket", str(d.socket), "generate", "a b c", "--max-tokens", "200"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        sessions = until(lambda: d.client().call("Sessions")["parameters"]["sessions"], "a session")
        self.assertEqual(d.ctl("close", str(sessions[0]["id"])).returncode, 0)
        _, said = reader.communicate(timeout=PATIENCE)
        self.assertEqual(reader.returncode, 1)
        self.assertIn(f"the session was closed by user {os.getuid()} before the reply's end", said)

    def test_moves_end_beside_sessions_that_come_and_go(self):
        d = self.start(devices="[{name: cpu}, {name: vulkan}]", extra="replies: {temperature: 0}\n").ready()
        if d.status()["devices"] < 2:
            self.skipTest("there is one device")
        over = threading.Event()

        def visit():
            while not over.is_set():
                c = d.client()
                c.call("Generate", prompt="a b c", max_tokens=3)
                c.close()

        guests = [threading.Thread(target=visit) for _ in range(2)]
        for g in guests:
            g.start()
        try:
            for there in ["vulkan", "cpu"] * 5:
                moved = d.ctl("move", "all", there)
                self.assertEqual(moved.returncode, 0, moved.stdout + moved.stderr)
        finally:
            over.set()
            for g in guests:
                g.join()

    def test_a_chat_without_a_model_fails_before_anything_is_typed(self):
        d = self.start(model=self.folder / "none.gguf").comes_to("failed")
        chat = subprocess.run([TERRANECTL, "--socket", str(d.socket), "chat"], input="", capture_output=True, text=True)
        self.assertEqual(chat.returncode, 1)
        self.assertIn("none.gguf", chat.stderr)

    def test_a_snapshot_of_a_daemon_is_planned_on_elsewhere(self):
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "full.yaml").write_text(
            POLICY.format(name="full").replace("for_each: gpu", "for_each: cpu").replace("to: cpu", "to: most_free"))
        d = self.start().ready()
        first_readings(d)
        saved = d.ctl("snapshot")
        self.assertEqual(saved.returncode, 0, saved.stderr)
        (self.folder / "one.jsonl").write_text(saved.stdout)
        d.stop()
        planned = d.ctl("plan", "--snapshot", str(self.folder / "one.jsonl"), "--assume", "cpu/vram.used_ratio=0.97")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("policy 'full' engaged for cpu", planned.stdout)

    def test_text_is_whole_utf8_and_sessions_go_on(self):
        d = self.start().ready()
        c = d.client()
        c.send("Generate", more=True, prompt="\u00e4\u00f6\u00fc \U0001f9ed", max_tokens=60, keep=True,
               sampling={"temperature": 5.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 3})
        while True:
            reply = c.receive()  # json.loads refuses bytes that are not UTF-8
            if not reply.get("continues"):
                break
        session = reply["parameters"]["session"]
        more = c.call("Generate", prompt=" more", session=session, max_tokens=3)["parameters"]
        self.assertGreater(more["summary"]["cached_tokens"], 60)

    def test_stops_cleanly_in_the_middle_of_replies_and_moves(self):
        d = self.start(devices="[{name: cpu}]").ready()
        clients = []
        for _ in range(2):
            clients.append(d.client())
            clients[-1].send("Generate", more=True, prompt="one two three", max_tokens=200)
            clients[-1].receive()
        for _ in range(3):
            clients.append(d.client())
            clients[-1].send("Move", more=True, parts=["head", "layer.0.attn"], device="cpu")
        d.process.send_signal(signal.SIGTERM)
        self.assertEqual(d.process.wait(PATIENCE), 0)

    def test_sampling_that_cannot_be_is_refused_by_name(self):
        c = self.start().ready().client()
        for field in ("top_k", "repetition_window"):
            error = c.call("Generate", prompt="a", sampling={field: -1})
            self.assertEqual(error["error"], "org.varlink.service.InvalidParameter")
            self.assertEqual(error["parameters"]["parameter"], "sampling." + field)

    def test_more_sessions_than_there_are_is_busy_with_words(self):
        c = self.start().ready().client()
        for _ in range(2):
            c.call("Generate", prompt="a", max_tokens=1, keep=True)
        error = c.call("Generate", prompt="a", max_tokens=1)
        self.assertEqual(error["error"], "io.terrane.Control.Busy")
        self.assertIn("all 2 sessions are in use", error["parameters"]["message"])

    def test_a_dry_run_plans_and_does_not_run(self):
        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "one.lua").write_text(
            'policy "full" {\n  for_each = "device",\n  enter = above("vram.used_ratio", 0.92),\n'
            '  leave = below("vram.used_ratio", 0.5),\n'
            '  plan = function (d, out) return out:decline "nowhere to go" end,\n}\n')
        d = self.start().ready()
        first_readings(d)
        plan = d.client().call("Plan", assume=[{"object": "cpu", "metric": "vram.used_ratio", "value": 0.97}])
        decision = plan["parameters"]["decisions"][0]
        self.assertEqual(decision["id"], 0)
        self.assertTrue(decision["text"].startswith("A dry run on snapshot"), decision["text"])

    def test_an_inherited_journal_stream_does_not_swallow_messages(self):
        d = self.start(model="/missing.gguf", environment={"JOURNAL_STREAM": "9:1234567"}).comes_to("failed")
        self.assertIn("error: the model could not be loaded: /missing.gguf", d.said())

    def test_without_a_vulkan_loader_it_starts_on_the_cpu(self):
        # A loader that cannot be opened, found before any other.
        (self.folder / "lib").mkdir()
        (self.folder / "lib" / "libvulkan.so.1").write_text("")
        d = self.start(devices="[{name: vulkan}, {name: cpu}]",
                       environment={"LD_LIBRARY_PATH": str(self.folder / "lib")}).ready()
        devices = {one["name"]: one for one in d.client().call("Devices")["parameters"]["devices"]}
        self.assertEqual(devices["cpu"]["state"], "ready")
        self.assertGreater(devices["cpu"]["parts"], 0)
        self.assertEqual(devices["vulkan"]["state"], "refused")
        self.assertIn("libvulkan.so.1 cannot be opened", devices["vulkan"]["reason"])
        self.assertEqual(d.said().count("warning: device vulkan is left out"), 1)
        self.assertIn("device vulkan is left out", " ".join(d.status()["warnings"]))
        shown = d.ctl("devices")
        self.assertIn("refused", shown.stdout)
        self.assertIn("libvulkan.so.1 cannot be opened", shown.stdout)
        error = d.client().call("Move", parts=["head"], device="vulkan")
        self.assertEqual(error["error"], "io.terrane.Control.DeviceUnusable")
        self.assertEqual(error["parameters"]["device"], "vulkan")
        refused = d.ctl("move", "head", "vulkan")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("libvulkan.so.1 cannot be opened", refused.stderr)

    def test_the_journal_gets_what_was_decided_in_fields(self):
        # A journal of the test's own, in a /run of the daemon's own.
        inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'mount --bind "{self.folder}/run" /run && exec "$@"', "sh"]
        journal = self.folder / "run" / "systemd" / "journal"
        journal.mkdir(parents=True)
        try:
            if subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL).returncode != 0:
                self.skipTest("no mount namespaces here")
        except FileNotFoundError:
            self.skipTest("unshare is not installed")
        entries = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        entries.bind(str(journal / "socket"))
        entries.settimeout(PATIENCE)
        self.addCleanup(entries.close)

        def entry_with(*fields):
            while True:
                lines = entries.recv(65536).decode().splitlines()
                entry = dict(line.split("=", 1) for line in lines if "=" in line)
                if all(field in entry for field in fields):
                    return entry

        def stream(log):  # what systemd says of the stream it gave
            at = os.fstat(log.fileno())
            return {"JOURNAL_STREAM": f"{at.st_dev}:{at.st_ino}"}

        (self.folder / "policies").mkdir()
        (self.folder / "policies" / "hot.yaml").write_text(
            "apiVersion: terrane/v1\npolicies:\n  - name: hot\n    for_each: cpu\n"
            "    enter: {metric: temp_c, above: 85C}\n    leave: {metric: temp_c, below: 70C}\n"
            "    do: {move: head, to: most_free}\n")
        (self.folder / "readings.yaml").write_text("cpu: {temp_c: 95C}\n")
        d = self.start(devices="[{name: cpu}, {name: vulkan}]", environment=stream, wrap=inside)
        decided = entry_with("TERRANE_DECISION")
        self.assertEqual((decided["TERRANE_POLICY"], decided["SYSLOG_IDENTIFIER"], decided["PRIORITY"]), ("hot", "terraned", "5"))
        self.assertIn("hot", decided["MESSAGE"])
        self.assertEqual(d.said(), "", "all goes to the journal")
        if "vulkan" not in "".join(one["name"] for one in d.client().call("Devices")["parameters"]["devices"] if one["state"] == "ready"):
            return  # nowhere to move to
        moved = entry_with("TERRANE_PART")
        self.assertEqual((moved["TERRANE_DECISION"], moved["TERRANE_POLICY"], moved["TERRANE_PART"], moved["TERRANE_FROM"]),
                         (decided["TERRANE_DECISION"], "hot", "head", "cpu"))
        self.assertTrue(moved["TERRANE_TO"].startswith("vulkan:"), moved["TERRANE_TO"])

    def test_pins_that_fit_no_part_are_told(self):
        d = self.start(extra="pinned: [layer.99.attn, head]\n").ready()
        self.assertIn("pinned: the model has no part 'layer.99.attn'", d.said())
        self.assertNotIn("'head'", d.said())

    def test_groups_that_do_not_exist_are_told(self):
        d = self.start(control=", operate_group: no-such-users, admin_group: root")
        warnings = d.ready().status()["warnings"]
        self.assertEqual([w for w in warnings if "group" in w], [w for w in warnings if "'no-such-users'" in w])
        self.assertEqual(len(warnings), 1)
        self.assertIn("warning: " + warnings[0], d.said())

    def test_what_the_configuration_wants_and_does_not_get_is_told(self):
        (self.folder / "file").write_text("")
        d = Daemon(self.folder, self.model)
        d.stop()
        text = (self.folder / "terraned.yaml").read_text()
        text = text.replace("context: 256", "context: 999999").replace(f"cache: {self.folder}/cache", f"cache: {self.folder}/file/cache")
        (self.folder / "other.yaml").write_text(text)
        said = subprocess.Popen([TERRANED, "--config", str(self.folder / "other.yaml")], stderr=subprocess.PIPE, text=True)
        self.addCleanup(said.stderr.close)
        self.addCleanup(said.wait)
        self.addCleanup(said.kill)
        lines = ""
        while "ready:" not in lines:
            lines += said.stderr.readline() or self.fail("terraned ended: " + lines)
        self.assertIn("context: 999999 tokens are more than the model was trained for", lines)
        self.assertIn("file/cache cannot be written", lines)

    def test_the_list_of_devices_says_what_each_is(self):
        listed = subprocess.run([TERRANED, "--list-devices"], capture_output=True, text=True)
        self.assertRegex(listed.stdout, r"(?m)^cpu +\S.*thread")
        self.assertNotRegex(listed.stdout, r"(?m)^\S+ +,")  # a refused one without a description

    def test_telemetry_is_listed_without_a_model(self):
        path = self.folder / "seen.yaml"
        path.write_text(f"model: {{file: {self.folder}/none.gguf}}\ndevices: [{{name: cpu}}]\n")
        for wanted in ([], ["--json"]):
            seen = subprocess.run(
                [TERRANED, "--telemetry", *wanted, "--config", str(path)], capture_output=True, text=True)
            self.assertEqual(seen.returncode, 0, seen.stderr)
            if not wanted:
                self.assertRegex(seen.stdout, r"(?m)^host +host\.memory_total +\S+ .iB +\d+ ms  host memory$")
                continue
            readings = json.loads(seen.stdout)["readings"]
            self.assertIn(("cpu", "vram.total"), [(r["object"], r["metric"]) for r in readings])

    def test_output_to_a_full_disk_is_a_failure(self):
        path = self.folder / "seen.yaml"
        path.write_text(f"model: {{file: {self.folder}/none.gguf}}\ndevices: [{{name: cpu}}]\npolicies: []\n")
        given = ["--config", str(path)]
        d = self.start().ready()
        first_readings(d)
        for program, *wanted in ([TERRANED, "--list-devices"], [TERRANED, "--check", *given], [TERRANED, "--telemetry", *given],
                                 [TERRANED, "--help"], [TERRANED, "--version"], [TERRANECTL, "--version"], [TERRANECTL, "--socket", str(d.socket), "snapshot"]):
            with open("/dev/full", "w") as full:
                ran = subprocess.run([program, *wanted], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(ran.returncode, 1, (wanted, ran.stderr))
            self.assertIn("the output could not be written whole: No space left on device", ran.stderr)

    def test_a_check_says_what_came_of_it(self):
        path = self.folder / "checked.yaml"
        policy = self.folder / "policy.yaml"
        path.write_text(f"model: {{file: {self.folder}/none.gguf}}\npolicies: [{policy}]\n")
        policy.write_text("apiVersion: terrane/v1\npolicies: []\n")
        good = subprocess.run([TERRANED, "--check", "--config", str(path)], capture_output=True, text=True)
        self.assertEqual((good.returncode, good.stdout), (0, f"{path}: no faults\n"), good.stderr)
        policy.write_text("apiVersion: terrane/v1\npolicies: 3\n")
        bad = subprocess.run([TERRANED, "--check", "--config", str(path)], capture_output=True, text=True)
        self.assertEqual((bad.returncode, bad.stdout), (1, ""))
        self.assertIn(f"{policy}:2:", bad.stderr)

    def test_a_check_names_a_device_to_start_on_that_is_not_there(self):
        path = self.folder / "checked.yaml"
        for devices, wanted, expected in (("[{name: cpu}]", "cuda:GPU-none", "is not one of the devices that the configuration lists"),
                                          ("[{name: cpu}, {name: 'vulkan:none'}]", "vulkan:none", "there is no device 'vulkan:none' on this machine; there are cpu")):
            path.write_text(f"model: {{file: {self.folder}/none.gguf}}\ndevices: {devices}\nstart_on: '{wanted}'\n")
            bad = subprocess.run([TERRANED, "--check", "--config", str(path)], capture_output=True, text=True)
            self.assertEqual((bad.returncode, bad.stdout), (1, ""))
            self.assertIn(expected, bad.stderr)
        path.write_text(f"model: {{file: {self.folder}/none.gguf}}\nstart_on: cpu\n")
        self.assertEqual(subprocess.run([TERRANED, "--check", "--config", str(path)], capture_output=True).returncode, 0)

    def test_terranectl_without_a_daemon_says_so(self):
        r = subprocess.run([TERRANECTL, "--socket", str(self.folder / "none.sock"), "status"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 3)
        self.assertIn("none.sock", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2, warnings="ignore")
