"""Has a scout search a real Meilisearch: through the daemon, its http adapter and nothing else, with evidence of it.

Arguments: the directory of the program and its adapters, a directory to work in, and that of the modules of Node.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import sys
import time

import httpx

PATIENCE = 60
MASTER = "master-key-0123456789abcdef"

FILMS = [
    {"id": 1, "title": "Sea of Ice", "overview": "A ship is caught in the ice of the northern sea."},
    {"id": 2, "title": "Desert", "overview": "Nobody finds water."},
    {"id": 3, "title": "The Lighthouse", "overview": "Two keepers look at the sea, night after night."},
]


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


@contextlib.contextmanager
def process(command, log, **more):
    with open(log, "ab") as output:
        child = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, **more)
        try:
            yield child
        finally:
            child.terminate()
            child.wait(PATIENCE)


class Meilisearch:
    def __init__(self, port):
        headers = {"Authorization": f"Bearer {MASTER}"}
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE)

    def is_well(self):
        with contextlib.suppress(httpx.HTTPError):
            return self.client.get("/health").json()["status"] == "available"

    def task(self, answer):
        """Waits for what it was asked to do: it only says that it will."""
        answer.raise_for_status()
        uid = answer.json()["taskUid"]
        state = lambda: self.client.get(f"/tasks/{uid}").json()
        ended = until("the task", lambda: (it := state())["status"] in ("succeeded", "failed") and it)
        assert ended["status"] == "succeeded", ended

    def prepare(self):
        """Fills an index, and returns a key that can only search it."""
        self.task(self.client.post("/indexes", json={"uid": "films", "primaryKey": "id"}))
        self.task(self.client.post("/indexes/films/documents", json=FILMS))
        key = {"actions": ["search"], "indexes": ["films"], "expiresAt": None}
        answer = self.client.post("/keys", json=key)
        answer.raise_for_status()
        return answer.json()["key"]


def config(port):
    return f"""
[secrets]
MEILI_KEY = "env:MEILI_KEY"
[[adapters]]
id = "scout"
ref = "nexus_router_adapter_scout:create_adapter"
role = "scout"
[adapters.config.searches.films]
query = "q"
hits = "/hits"
url = "/id"
snippet = "/overview"
[[adapters.sources]]
name = "films"
adapter = "engine"
tool = "films"
method = "search"
action_class = "web_search"
args = {{ attributesToRetrieve = ["id", "title", "overview"] }}
volatile = ["/processingTimeMs", "/requestUid"]
[[adapters.sources]]
name = "nowhere"
adapter = "engine"
tool = "nowhere"
method = "search"
action_class = "web_search"
[[adapters]]
id = "engine"
ref = "nexus_router_adapter_http:create_adapter"
grants = {{ connect = ["127.0.0.1:{port}"] }}
[adapters.config]
base_url = "http://127.0.0.1:{port}/indexes"
headers = {{ Authorization = {{ "$secret" = "MEILI_KEY" }} }}
"""


def search(daemon, **args):
    call = {"tool": "web_search", "method": "call", "args": args}
    plan = {
        "goal": "look for films",
        "mode": "apply",
        "policy": {"allow_apply": True},
        "dispatch": {"adapter_id": "scout"},
        "plan_override": [{"step_id": "s", "intent": "", "call": call}],
    }
    answer = daemon.post("/v1/runs", json=plan)
    answer.raise_for_status()
    return answer.json()


def check(daemon, work, key):
    runs = [search(daemon, query="sea", source="films") for _ in range(2)]
    found = []
    for run in runs:
        output = run["results"][0]["output"]
        titles = [it["title"] for it in sorted(output["sources"], key=lambda it: it["rank"])]
        assert sorted(titles) == ["Sea of Ice", "The Lighthouse"], output
        assert {it["url"] for it in output["sources"]} == {"1", "3"}, output
        step = work / "state" / "sealed" / "evidence" / run["run"]["run_id"] / "step-1" / "outputs"
        found.append([(step / name).read_bytes() for name in ("parsed.json", "broker.jsonl")])
        line = json.loads(found[-1][1])
        assert line["outcome"] == "ok" and line["input"]["q"] == "sea", line
        assert line["output_sha256"] == output["result"]["answer_sha256"], line
    # Meilisearch tells how long it took, which differs; what is sealed does not.
    assert found[0] == found[1]
    missing = search(daemon, query="sea", source="nowhere")["results"][0]["error"]
    # The key can only search the one index, so it does not even learn that there is no other.
    assert missing["code"] == "HTTP_ERROR" and missing["details"]["status_code"] in (403, 404), missing
    for file in work.rglob("*"):
        if file.is_file() and "state" in file.parts:
            assert key.encode() not in file.read_bytes(), file


def main():
    build, work, modules = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    work.mkdir(parents=True, exist_ok=True)
    program = work / "meilisearch"
    shutil.copy(modules / "@gaubee" / "meilisearch-linux-amd64" / "meilisearch", program)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    port = free_port()
    options = ["--http-addr", f"127.0.0.1:{port}", "--master-key", MASTER, "--env", "development"]
    serve = [program, *options, "--no-analytics", "--db-path", "films.db"]
    with process(serve, work / "meilisearch.log", cwd=work):
        meilisearch = Meilisearch(port)
        until("Meilisearch", meilisearch.is_well)
        version = meilisearch.client.get("/version").json()["pkgVersion"]
        key = meilisearch.prepare()
        (work / "router.toml").write_text(config(port))
        env = {"NEXUS_ROUTER_CACHE_DIR": str(work / "cache"), "HOME": str(work), "PATH": os.environ["PATH"]}
        env["MEILI_KEY"] = f"Bearer {key}"
        options = ["--listen", "127.0.0.1:0", "--no-tokens", "--data-dir", "state"]
        command = [build / "nexus-router", "serve", *options, "--config-file", "router.toml"]
        log = work / "daemon.log"
        with process(command, log, cwd=work, env=env) as child:
            find = re.compile(r"listens +(http://\S+)").search
            url = until("the daemon", lambda: find(log.read_text()))[1]
            check(httpx.Client(base_url=url, timeout=PATIENCE), work, key)
        assert child.returncode == 0, child.returncode
        sealed = work / "state" / "sealed"
        verify = [build / "nexus-router", "evidence", "verify", "--trust", sealed / "keys" / "trust.json", sealed]
        subprocess.run([str(word) for word in verify], check=True, env=env, stdout=subprocess.DEVNULL)
    print(f"{version}: searched by a scout, twice with the same evidence")


main()
