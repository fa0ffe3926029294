"""A collector of OpenTelemetry: takes what the daemon exports, and holds it against what was asked."""

import os
import pathlib
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


def collect(directory, port_file):
    """Keeps every export as a file."""

    class Collector(BaseHTTPRequestHandler):
        count = 0

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            good = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if good:
                Collector.count += 1
                part = pathlib.Path(directory, f"{Collector.count}.part")
                part.write_bytes(body)
                part.rename(part.with_suffix(".bin"))
            self.send_response(200 if good else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    pathlib.Path(port_file).write_text(str(server.server_port))
    server.serve_forever()


def received(directory):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    for file in sorted(pathlib.Path(directory).glob("*.bin")):
        request = ExportTraceServiceRequest.FromString(file.read_bytes())
        for resource in request.resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            assert names["service.name"] == "nexus-router", names
            for scope in resource.scope_spans:
                yield from scope.spans


def check(directory):
    """Sends a run within a trace, and finds request, run and steps in it."""
    import httpx

    call = {"tool": "greeter", "method": "hello", "args": {}}
    plan = [{"step_id": name, "intent": "greet", "call": call} for name in ("one", "two")]
    answer = httpx.post(
        os.environ["URL"] + "/v1/runs",
        headers={
            "Authorization": "Bearer " + os.environ["TOKEN"],
            "traceparent": f"00-{TRACE}-{CALLER}-01",
        },
        json={
            "goal": "be traced",
            "mode": "apply",
            "policy": {"allow_apply": True},
            "dispatch": {"adapter_id": "echo"},
            "plan_override": plan,
        },
        timeout=20,
    )
    assert answer.json()["status"] == "COMPLETED", answer.text

    deadline = time.monotonic() + 30
    while True:
        spans = [span for span in received(directory) if span.trace_id.hex() == TRACE]
        if len(spans) >= 4 or time.monotonic() > deadline:
            break
        time.sleep(0.2)

    def below(parent, what):
        found = [span for span in spans if span.parent_span_id.hex() == parent]
        assert found, f"no span of {what} below {parent}: {[(s.name, s.parent_span_id.hex()) for s in spans]}"
        return found

    (request,) = below(CALLER, "the request")
    (run,) = below(request.span_id.hex(), "the run")
    steps = below(run.span_id.hex(), "the steps")
    assert len(steps) == len(plan), [span.name for span in steps]
    for span in (request, run, *steps):
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
    outer = (request.start_time_unix_nano, request.end_time_unix_nano)
    assert outer[0] <= run.start_time_unix_nano and run.end_time_unix_nano <= outer[1], (request, run)
    print(f"{request.name} > {run.name} > {len(steps)} x {steps[0].name}, within the caller's trace")


if __name__ == "__main__":
    {"collect": collect, "check": check}[sys.argv[1]](*sys.argv[2:])
