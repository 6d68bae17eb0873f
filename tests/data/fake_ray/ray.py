"""As much of Ray as `python/evo_ray.py` uses, in one process: each method of an actor runs in threads of its own."""

from concurrent.futures import ThreadPoolExecutor


class Method:
    def __init__(self, bound, pool):
        self.bound, self.pool = bound, pool

    def remote(self, *arguments):
        return self.pool.submit(self.bound, *arguments)


class Handle:
    def __init__(self, instance):
        pool = ThreadPoolExecutor(4)
        self.methods = {name: Method(getattr(instance, name), pool) for name in ("listen", "run", "end")}

    def __getattr__(self, name):
        return self.methods[name]


class Remote:
    def __init__(self, cls):
        self.cls = cls

    def options(self, **wanted):
        assert wanted["max_restarts"] == 0 and wanted["max_task_retries"] == 0, wanted
        assert wanted["num_gpus"] == 1 and wanted.get("accelerator_type") in (None, "H200"), wanted
        return self

    def remote(self, *arguments):
        return Handle(self.cls(*arguments))


class util:
    @staticmethod
    def get_node_ip_address():
        return "127.0.0.1"


def init(**_):
    # As Ray does with what a driver has to know, whatever it was told of logs.
    print("(raylet) The node with node id: 1 has been marked dead", flush=True)


def remote(cls):
    return Remote(cls)


def get(future, timeout=None):
    return future.result(timeout)


def kill(_):
    pass
