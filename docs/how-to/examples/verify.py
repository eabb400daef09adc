"""A webhook receiver that verifies signatures with Python's standard library alone.

WEBHOOK_SECRET (whsec_..., from the response that created the listener), PORT (8080; 0 takes a free one).
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 5 * 60


class NotGenuine(Exception):
    pass


def verify(secret: str, headers, body: bytes) -> None:
    """Raises NotGenuine unless the body was signed with the secret within the last five minutes."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not message_id or not signatures or not timestamp.isascii() or not timestamp.isdigit():
        raise NotGenuine("a header is missing")
    # A signature does not expire by itself: without this check a recorded webhook could be sent again at any time.
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        raise NotGenuine("the timestamp is too old or too new")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    # The raw bytes: JSON that was parsed and written again may differ.
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = hmac.new(key, signed, hashlib.sha256).digest()
    # There are two signatures while a secret is being rotated; one match is enough.
    if not any(is_same(expected, signature) for signature in signatures.split(" ")):
        raise NotGenuine("no signature matches")


def is_same(expected: bytes, signature: str) -> bool:
    version, _, value = signature.partition(",")
    try:
        return version == "v1" and hmac.compare_digest(expected, base64.b64decode(value))
    except binascii.Error:
        return False


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            verify(os.environ["WEBHOOK_SECRET"], self.headers, body)
        except NotGenuine:
            self.respond(401)
            return
        handle(self.headers["webhook-id"], json.loads(body))
        self.respond(204)

    def respond(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


def handle(delivery: str, event: dict) -> None:
    """The same id again is the same delivery again: remember ids together with the effect, and ignore known ones."""
    shown = {name: event[name] for name in ("type", "key", "sequence")}
    print(json.dumps({"id": delivery, **shown}, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()
