"""A program on a cluster that runs already, with an environment for its functions."""

import os
import sys

import cascade

sys.path.insert(0, "job")
import beside  # noqa: E402


@cascade.remote
def double(x):
    return 2 * x


@cascade.remote
def where():
    return os.environ.get("MARK"), os.path.exists("beside.py"), "beside" in sys.modules


def tried(do):
    """What a function returns, or its error."""
    try:
        return do()
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


if __name__ == "__main__":
    with cascade.local(programs=sys.argv[1], cpu=2) as cluster:
        os.environ["CASCADE_TO"] = cluster.address
        with cascade.init(env={"MARK": "here"}, name="first") as session:
            print(session.cluster.address == cluster.address, double.remote(2).result(), where.remote().result())
            print("by value", beside.triple.remote(2).result(), beside.of_both.remote(2).result())
        with cascade.init(cluster.address, py_modules="job/beside.py", name="second"):
            print("by name", beside.triple.remote(2).result(), beside.of_both.remote(2).result())
            print(tried(cascade.init).partition(" at ")[0])
        with cascade.init(working_dir="job", name="third"):
            print("folder", where.remote().result()[1])
        print([(row["name"], row["phase"]) for row in cluster.jobs()][::-1])
    print(tried(lambda: double.remote(1)).partition(" /")[0])
