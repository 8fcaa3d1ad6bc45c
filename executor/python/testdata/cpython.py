"""Runs CPython's own tests of executors on cascade.Executor. They are those of the interpreter's package test, where it has one."""

import importlib
import os
import sys
import unittest

import cascade

# What is left out, and why.
EXCLUDED = {
    name: "it imports the class from concurrent.futures by its name, in a program of its own; pools.py has such programs"
    for name in ("test_interpreter_shutdown", "test_submit_after_interpreter_shutdown", "test_hang_gh83386")
}


def found(*names):
    """Classes of the tests, which later versions spread over modules."""
    modules = [importlib.import_module("test.test_concurrent_futures")]
    for part in ("util", "executor", "test_wait", "test_as_completed", "test_shutdown"):
        try:
            modules.append(importlib.import_module("test.test_concurrent_futures." + part))
        except ModuleNotFoundError:
            pass
    return [next(getattr(m, n) for m in modules if hasattr(m, n)) for n in names]


def main():
    try:
        tests = found("ExecutorTest", "WaitTests", "AsCompletedTests", "ExecutorShutdownTest")
    except ModuleNotFoundError as e:
        print("absent:", e.name)
        return
    (base, mixin) = found("BaseTestCase", "ExecutorMixin")
    suite = unittest.TestSuite()
    for cls in tests:
        made = type("Cascade" + cls.__name__, (cls, mixin, base), {"executor_type": cascade.Executor})
        for name in unittest.defaultTestLoader.getTestCaseNames(made):
            if not EXCLUDED.get(name):
                suite.addTest(made(name))
    with cascade.init(store="64MiB", cpu=5, programs=sys.argv[1], log_to_driver=False):
        with cascade.Executor() as executor:
            executor.submit(os.getpid).result()  # its threads are there before those of tests are counted
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    print("ran", result.testsRun, "failed", len(result.failures) + len(result.errors), "skipped", len(result.skipped))


if __name__ == "__main__":
    main()
