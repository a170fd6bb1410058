#!/usr/bin/env python3
"""Many runs side by side: each line of LIST holds the arguments of one `asr run`, each process has one thread.

usage: tools/run_many.py LIST [--jobs N | --gpu-jobs G --cpu-jobs C] [--mps] [--seconds S]
       [--program FILE] [--state DIR]

What is done stays done: a finished line is skipped, a begun one goes on with --resume. LIST may grow. Ctrl-C, SIGTERM
and --seconds stop the runs at a checkpoint. Exit status: 0 all done, 1 some failed, 2 bad input, 3 stopped before the
end. Every line needs an output_dir of its own. Only Python's standard library is used.
"""
import argparse
import hashlib
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


def fail(text):
    print("run_many: " + text, file=sys.stderr)
    sys.exit(2)


class Line:
    def __init__(self, number, words, state):
        self.number, self.words = number, words
        self.output = None
        for i, word in enumerate(words):
            if words[i - 1] == "--set" and word.startswith("output_dir="):
                self.output = word[len("output_dir="):]
        # The name does not change when lines are added before it.
        self.name = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
        self.log = os.path.join(state, self.name + ".log")
        self.note = os.path.join(state, self.name + ".txt")

    def noted(self):
        """The note of an earlier start: (status, device), or (None, None)."""
        try:
            with open(self.note) as file:
                status, device = file.readline().split()[:2]
            return status, device
        except (OSError, ValueError):
            return None, None

    def write(self, status, device, seconds=0.0):
        with open(self.note + ".tmp", "w") as file:
            file.write(f"{status} {device} {seconds:.1f}\n{shlex.join(self.words)}\n")
        os.replace(self.note + ".tmp", self.note)

    def done(self):
        return self.noted()[0] == "done" and os.path.isdir(self.output)

    def last_words(self):
        try:
            with open(self.log, errors="replace") as file:
                lines = [text.strip() for text in file if text.strip()]
            return lines[-1][-300:] if lines else "no output"
        except OSError:
            return "no output"


def read_list(path, state):
    try:
        text = sys.stdin.read() if path == "-" else open(path).read()
    except OSError as error:
        fail(f"{path}: {error.strerror}; name a file with the arguments of one run a line")
    lines, outputs = [], {}
    for number, raw in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(raw, comments=True)
        except ValueError as error:
            fail(f"{path}:{number}: {error}")
        while words and (words[0] in ("run", "--resume") or os.path.basename(words[0]) == "asr"):
            words = words[1:]
        words = [word for word in words if word != "--resume"]
        if not words:
            continue
        line = Line(number, words, state)
        if line.output is None:
            fail(f"{path}:{number}: has no --set output_dir=...; every line needs one of its own")
        place = os.path.normpath(line.output)
        if place in outputs:
            fail(f"{path}:{number}: output_dir {line.output} is also that of line {outputs[place]}; "
                 "every line needs one of its own")
        outputs[place] = number
        lines.append(line)
    if not lines:
        fail(f"{path}: holds no line")
    return lines


class SharedGpu:
    """NVIDIA's MPS daemon while it lives: kernels of several processes run beside each other, not in turns."""

    def __init__(self, wanted):
        self.control, self.environment = shutil.which("nvidia-cuda-mps-control"), dict(os.environ)
        if not wanted:
            self.control = None
            return
        if not self.control:
            fail("--mps: nvidia-cuda-mps-control is not installed; leave --mps away")
        folder = tempfile.mkdtemp(prefix="mps-")  # short: sockets have short names
        self.environment.update(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
        started = subprocess.run([self.control, "-d"], env=self.environment, capture_output=True, text=True)
        if started.returncode != 0:
            fail("--mps: the daemon does not start: " + (started.stderr or started.stdout).strip()[:300])

    def end(self):
        if self.control:
            subprocess.run([self.control], input="quit\n", text=True, env=self.environment, capture_output=True)


class Pool:
    def __init__(self, program, lines, environment):
        self.program, self.environment, self.todo = program, environment, queue.SimpleQueue()
        self.count, self.ended, self.failed, self.stopped = len(lines), 0, [], False
        self.lock, self.children = threading.Lock(), set()
        self.begin = time.time()
        # Runs that were begun come first: least is lost if the time is short.
        for line in sorted(lines, key=lambda line: line.noted()[0] is None):
            self.todo.put(line)

    def stop(self):
        self.stopped = True
        with self.lock:
            for child in self.children:
                child.send_signal(signal.SIGTERM)

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def run(self, line, device):
        begun, earlier = line.noted()
        words = list(line.words)
        if device != "-":
            # A run ends on the device on which it began: the last bits differ between them.
            words += ["--set", "device=" + (earlier if begun and earlier != "-" else device)]
            device = words[-1][len("device="):]
        environment = dict(self.environment, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        start = time.time()
        line.write("begun", device)
        os.makedirs(os.path.dirname(os.path.abspath(line.output)), exist_ok=True)
        with open(line.log, "a") as log:
            with self.lock:
                if self.stopped:
                    return
                child = subprocess.Popen([self.program, "--threads", "1", "run"] + words + ["--resume"],
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                         env=environment, start_new_session=True)
                self.children.add(child)
            status = child.wait()
            with self.lock:
                self.children.discard(child)
        seconds = time.time() - start
        if status == 0:
            line.write("done", device, seconds)
        elif not (self.stopped and status in (130, 143, -signal.SIGTERM)):
            line.write("failed", device, seconds)
            self.failed.append(line)
        else:
            return
        self.ended += 1
        left = (time.time() - self.begin) / self.ended * (self.count - self.ended)
        self.say(f"{self.ended}/{self.count} {'done' if status == 0 else 'FAILED'} {seconds:.1f} s {device} "
                 f"line {line.number} {line.output} (about {left / 60:.1f} min left)")

    def work(self, device):
        while not self.stopped:
            try:
                line = self.todo.get_nowait()
            except queue.Empty:
                return
            try:
                self.run(line, device)
            except OSError as error:
                self.failed.append(line)
                self.say(f"FAILED line {line.number}: {error}")


def parsed():
    usage = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usage.add_argument("list", metavar="LIST", help="a file, or - for standard input")
    usage.add_argument("--jobs", type=int, help="runs at a time, on the device that their lines name (default: a CPU each)")
    usage.add_argument("--gpu-jobs", type=int, default=0, help="runs at a time with device=cuda")
    usage.add_argument("--cpu-jobs", type=int, default=0, help="runs at a time with device=cpu, from the same list")
    usage.add_argument("--mps", action="store_true", help="share the GPU by NVIDIA's MPS daemon")
    usage.add_argument("--seconds", type=float, default=0, help="stop at checkpoints after this long; 0: never")
    usage.add_argument("--program", default=os.environ.get("ASR", "build/asr"), help="default: $ASR or build/asr")
    usage.add_argument("--state", help="folder of logs and notes (default: LIST.state)")
    return usage.parse_args()


def main():
    given = parsed()
    if given.jobs is not None and (given.gpu_jobs or given.cpu_jobs):
        fail("give --jobs, or --gpu-jobs and --cpu-jobs")
    if min(given.jobs if given.jobs is not None else 1, given.gpu_jobs + 1, given.cpu_jobs + 1) < 1:
        fail("give at least one job")
    if not os.access(given.program, os.X_OK):
        fail(f"{given.program}: no such program; build it, or name it with --program")
    state = given.state or ("run_many.state" if given.list == "-" else given.list + ".state")
    lines = read_list(given.list, state)
    os.makedirs(state, exist_ok=True)
    todo = [line for line in lines if not line.done()]
    if len(todo) < len(lines):
        print(f"{len(lines) - len(todo)} of {len(lines)} are done already", flush=True)
    jobs = given.jobs if given.jobs is not None else len(os.sched_getaffinity(0))
    devices = ["cuda"] * given.gpu_jobs + ["cpu"] * given.cpu_jobs or ["-"] * jobs
    gpu = SharedGpu(given.mps)
    pool = Pool(given.program, todo, gpu.environment)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: pool.stop())
    workers = [threading.Thread(target=pool.work, args=(device,)) for device in devices]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.05)
        if given.seconds and not pool.stopped and time.time() - pool.begin > given.seconds:
            pool.stop()
    gpu.end()
    for line in pool.failed:
        print(f"FAILED line {line.number} {line.output}: {line.last_words()} (all of it: {line.log})")
    left = pool.count - pool.ended
    seconds = time.time() - pool.begin
    print(f"{pool.ended - len(pool.failed)} done, {len(pool.failed)} failed, {left} left, in {seconds:.0f} s")
    sys.exit(1 if pool.failed else 3 if left else 0)


if __name__ == "__main__":
    main()
