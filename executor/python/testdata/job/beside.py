"""A module beside a program, which its functions find by name."""

import cascade


@cascade.remote
def triple(x):
    return 3 * x


@cascade.remote
def of_both(x):
    return [triple.remote(x).result(), __name__]


@cascade.remote
class Tally:
    """An actor of a module."""

    def __init__(self, n):
        self.n = n

    def more(self, k):
        self.n += k
        return self.n
