# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
"""What the measurements share: hosts as network namespaces, jobs on them, tracers beside them.
Whatever is started or made here is ended and deleted by Lab.close(), by its own id."""
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
LAUNCHER = os.path.join(ROOT, "tests/e2e/launcher")
NETWORK = "10.98.0"
DEADLINE_S = 30


def wait_until(condition, what, seconds=DEADLINE_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def ip(*args, **kw):
    return subprocess.run(["ip", *args], check=True, text=True, **kw)


def in_namespace(name, *command):
    return ["nsenter", f"--net=/run/netns/{name}", "--", *command]


def proc_field(pid, name):
    """A number of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M).group(1))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leave(number, _frame):
    raise SystemExit(128 + number)


class Lab:
    """Temporary files, processes and namespaces of one run."""

    def __init__(self):
        # A job in the background of a script has SIGINT ignored, and so would the tracers.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for sig in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, leave)
        self.prefix = f"ftb{os.getpid()}-"
        self.tmp = tempfile.mkdtemp(prefix="fabrictrace-bench.")
        self.processes, self.namespaces, self.undo, self.files = [], [], [], 0
        self.fabrictrace = os.path.join(self.tmp, "fabrictrace")
        self.trainer = os.path.join(self.tmp, "trainer")
        self.library = os.path.join(self.tmp, "libnccl.so.2")

    def copy_programs(self):
        """Copies: a build beside the run shall not change what is measured."""
        for name in ("fabrictrace", "workload/trainer", "workload/libnccl.so.2"):
            shutil.copy2(os.path.join(BUILD, name), self.tmp)

    def path(self, name):
        self.files += 1
        return os.path.join(self.tmp, f"{self.files}-{name}")

    def spawn(self, argv, **kw):
        """A process in a group of its own, so that the launcher's ranks end with it."""
        kw.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.Popen(argv, start_new_session=True, **kw)
        self.processes.append(p)
        return p

    def end(self, p):
        if p not in self.processes:
            return
        # The group's number cannot be another's while its leader is not waited for.
        for sig in (signal.SIGTERM, signal.SIGKILL):
            if p.returncode is None:
                os.killpg(p.pid, sig)
            try:
                p.wait(5)
                break
            except subprocess.TimeoutExpired:
                pass
        self.processes.remove(p)

    def close(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_IGN)
        for p in list(self.processes):
            self.end(p)
        for name in self.namespaces:
            drop_namespace(name)
        for undo in reversed(self.undo):
            undo()
        shutil.rmtree(self.tmp, ignore_errors=True)

    # ------------------------------------------------------------------------------ network

    def host(self, i):
        return f"{self.prefix}r{i}"

    def add_namespace(self, name):
        ip("netns", "add", name)
        self.namespaces.append(name)

    def star(self, n):
        """n hosts around a switch, NETWORK.1 .. NETWORK.n on eth0."""
        sweep_namespaces()
        switch = f"{self.prefix}sw"
        self.add_namespace(switch)
        ip("-n", switch, "-batch", "-", input="link add br0 type bridge\nlink set br0 up\n")
        for i in range(n):
            self.add_namespace(self.host(i))
            ip("-n", switch, "-batch", "-", input=f"""
                link add p{i} type veth peer name eth0 netns {self.host(i)}
                link set p{i} master br0 up
            """)
            ip("-n", self.host(i), "-batch", "-", input=f"""
                link set lo up
                addr add {address(i)}/24 dev eth0
                link set eth0 up
            """)

    def nft(self, i, rules):
        subprocess.run(in_namespace(self.host(i), "nft", "-f", "-"), input=rules, text=True,
                       check=True)

    def mount_tracefs(self):
        """bpftrace finds tracepoints there only."""
        if os.path.isdir("/sys/kernel/tracing/events"):
            return
        mount = ["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"]
        if subprocess.run(mount, check=False).returncode == 0:
            self.undo.append(lambda: subprocess.run(["umount", mount[-1]], check=False))


def address(i):
    return f"{NETWORK}.{i + 1}"


def drop_namespace(name):
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    for pid in pids.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], check=False)


def sweep_namespaces():
    """Those of a run that was killed before it could delete them."""
    listed = ip("netns", "list", capture_output=True).stdout
    for name, pid in re.findall(r"^(ftb(\d+)-\w+)", listed, re.M):
        if not os.path.exists(f"/proc/{pid}"):
            drop_namespace(name)


class Job:
    """n trainers, one to a host, from host `first` on; they wait for go() when hold is set."""

    def __init__(self, lab, n, *args, hold=False, port=29500):
        self.lab, self.n = lab, n
        self.dir = lab.path("job")
        os.mkdir(self.dir)
        command = [lab.trainer, "--verify", "none", "--print-step", *args]
        if hold:
            command += ["--start-file", os.path.join(self.dir, "go")]
        env = dict(os.environ, MASTER_ADDR=address(0), MASTER_PORT=str(port))
        with open(os.path.join(self.dir, "launcher.log"), "w") as log:
            self.launcher = lab.spawn([LAUNCHER, self.dir, f"{lab.prefix}r", str(n), *command],
                                      env=env, stdout=log, stderr=log)
        self.log = os.path.join(self.dir, "rank0.log")
        wait_until(lambda: self.lines(0, "init rank"), "the job starts")
        self.pid = self.launcher.pid

    def go(self):
        open(os.path.join(self.dir, "go"), "w").close()

    def pin(self, cpu):
        """All its threads to one CPU: where the scheduler puts them moves a tight loop by half."""
        with open(os.path.join(self.dir, "pids")) as f:
            for pid in f.read().split():
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(thread), {cpu})

    def lines(self, at, start):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as f:
            f.seek(at)
            return [line for line in f if line.startswith(start) and line.endswith("\n")]

    def steps(self, seconds):
        """Seconds of each step from now on, by the trainer's own time stamps, sorted."""
        at = os.path.getsize(self.log)
        time.sleep(seconds)
        if self.launcher.poll() is not None:
            raise RuntimeError("the job has ended")
        ends = [float(line.split()[5]) for line in self.lines(at, "step ")]
        return sorted(end - begin for begin, end in zip(ends, ends[1:]))

    def wait(self):
        self.launcher.wait(DEADLINE_S)

    def end(self):
        self.lab.end(self.launcher)


class Tool:
    """A tracer that has attached: start_s is how long that took. With `sink` its output goes to
    that file, otherwise through a pipe, so that the moment of attaching is exact."""

    def __init__(self, lab, argv, mark, sink=None):
        self.lab, self.mark = lab, mark
        self.errors = lab.path("errors")
        began = time.monotonic()
        with open(self.errors, "w") as errors, open(sink or os.devnull, "wb") as out:
            self.process = lab.spawn(argv, stdout=out if sink else subprocess.PIPE,
                                     stderr=errors)
        self.pid = self.process.pid
        if sink:
            wait_until(lambda: self.marked(sink), "the tracer attaches")
        else:
            self.read_mark()
        self.start_s = time.monotonic() - began
        if not sink:
            threading.Thread(target=self.drain, daemon=True).start()

    def died(self):
        with open(self.errors) as f:
            return RuntimeError(f"{self.process.args[0]} ended: {f.read()[-2000:]}")

    def marked(self, sink):
        if self.process.poll() is not None:
            raise self.died()
        with open(sink, "rb") as f:
            return self.mark in f.read()

    def read_mark(self):
        got, out = b"", self.process.stdout
        while self.mark not in got:
            if not select.select([out], [], [], DEADLINE_S)[0]:
                raise TimeoutError(f"{self.process.args[0]} does not attach")
            more = os.read(out.fileno(), 65536)
            if not more:
                raise self.died()
            got += more

    def drain(self):
        while os.read(self.process.stdout.fileno(), 1 << 20):
            pass

    def peak_mib(self):
        return proc_field(self.pid, "VmHWM") / 1024

    def stop(self):
        """Seconds from SIGINT to exit."""
        # bpftrace 0.17 forgets a signal that does not interrupt its epoll_wait of 100 ms.
        for _ in range(3):
            began = time.monotonic()
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(DEADLINE_S / 3)
            except subprocess.TimeoutExpired:
                continue
            self.lab.end(self.process)
            return time.monotonic() - began
        raise TimeoutError(f"{self.process.args[0]} does not end")


def fabrictrace(lab, *args, sink=None):
    return Tool(lab, [lab.fabrictrace, "--json", *args], b'"kind":"session"', sink)
