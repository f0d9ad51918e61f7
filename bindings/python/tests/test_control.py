"""Run control over HTTP."""

import http.server
import threading

import pytest
from conftest import Evbd

import evb

SYSTEM = """
[control]
listen = "127.0.0.1:{control}"
{token}
[supervisor]
listen = "127.0.0.1:{port}"
trigger = {{ kind = "poisson", rate = "1 kHz" }}
[[source]]
id = 1
bind = "127.0.0.1"
input = {{ kind = "generator", size = "10 B" }}
[[builder]]
id = 1
listen = "127.0.0.1:{builder}"
sink = "null"
"""


def answers(control):
    try:
        return control.status()["ready"]
    except evb.ControlError:
        return False


def test_a_run_is_started_paused_resumed_and_stopped(tmp_path, free_ports):
    port, control_port, builder = free_ports
    text = SYSTEM.format(port=port, control=control_port, builder=builder, token="")
    control = evb.Control(f"http://127.0.0.1:{control_port}/")
    with Evbd(tmp_path, text) as evbd:
        evbd.wait_for(lambda: answers(control))
        with pytest.raises(evb.RefusedError, match="no run is under way") as refused:
            control.pause()
        assert refused.value.refused_by and "start" in refused.value.remedy
        assert control.start(comment="a test", kind="calibration") == "Running"
        assert control.status()["annotation"] == {"kind": "calibration", "comment": "a test"}
        assert control.pause() == "Paused"
        assert control.resume() == "Running"
        evbd.wait_for(lambda: control.status()["survey"]["events"]["complete"] > 10)
        assert control.stop() in ("Configured", "Unconfigured")
        last = control.status()["last_run"]
        assert last["exit_code"] == 0 and last["events"]["complete"] > 10
        samples = control.history()
        assert control.history(after=samples["next"])["next"] >= samples["next"]
        assert control.configure() in ("Configured", "Unconfigured")
        assert control.reset() == "Unconfigured"


def test_a_token_is_needed_where_evbd_asks_for_it(tmp_path, free_ports):
    port, control_port, builder = free_ports
    token = tmp_path / "token"
    token.write_text("f" * 32 + "\n")
    token.chmod(0o600)
    text = SYSTEM.format(port=port, control=control_port, builder=builder, token=f'token_file = "{token}"')
    url = f"http://127.0.0.1:{control_port}"
    control = evb.Control(url, token_file=token)
    with Evbd(tmp_path, text) as evbd:
        evbd.wait_for(lambda: answers(control))
        assert evb.Control(url, "f" * 32).status()["access"] == "operator"
        for wrong in [None, "e" * 32]:
            with pytest.raises(evb.ControlError, match="401"):
                evb.Control(url, wrong).status()


def test_silence_and_nonsense_are_errors(free_ports):
    with pytest.raises(evb.ControlError, match="no answer from run control at .*--control"):
        evb.Control(f"http://127.0.0.1:{free_ports[0]}").status()

    class Nonsense(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[1, 2")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Nonsense) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(evb.ControlError, match="no JSON object"):
            evb.Control(f"http://127.0.0.1:{server.server_port}").status()
