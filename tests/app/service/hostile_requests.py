"""Hostile requests as they go over the wire, and the statuses that turn them away.

Words in capitals are put in by `spelled`: HOST and PORT of the service, tokens (OWNER, LOOK, TALK, OLD), a
used CODE, an EXPIRED one, S for the path of a session, R for that of a request that waits in it, LENGTH for
that of the body.
"""

from __future__ import annotations

JSON = "Content-Type: application/json"
YES = '{"answer":"once"}'
MESSAGE = '{"text":"greet","how":"prompt"}'
SOCKET = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
COOKIE = "Cookie: hermes_token_PORT=OWNER"


def post(path: str, *headers: str, body: str = MESSAGE, host: str = "Host: HOST") -> str:
    """A request that changes something."""
    return "\r\n".join([f"POST {path} HTTP/1.1", host, JSON, *headers, "Content-Length: LENGTH", "", body])


def get(path: str, *headers: str, host: str = "Host: HOST") -> str:
    """A request that reads."""
    return "\r\n".join([f"GET {path} HTTP/1.1", host, *headers, "", ""])


OWNER, LOOK, TALK, OLD = (f"Authorization: Bearer {name}" for name in ("OWNER", "LOOK", "TALK", "OLD"))
EVIL = "Origin: https://evil.example"
CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    # Without a token that counts
    "no token": (get("/api/sessions"), (401,)),
    "no token, events": (get("S/events?after=0"), (401,)),
    "no token, message": (post("S/messages"), (401,)),
    "no token, socket": (get("S/ws", *SOCKET), (401,)),
    "no token, models": (get("/v1/models"), (401,)),
    "no token, completions": (post("/v1/chat/completions", body="{}"), (401,)),
    "an old token": (get("/api/sessions", OLD), (401,)),
    "an old token approves": (post("R", OLD, body=YES), (401,)),
    "an old token as a cookie": (get("/api/sessions", "Cookie: hermes_token_PORT=OLD"), (401,)),
    "an old token, socket": (get("S/ws", *SOCKET, OLD), (401,)),
    "half a token": (get("/api/sessions", "Authorization: Bearer hmt_"), (401,)),
    "a token with the secret of another": (get("/api/sessions", "Authorization: Bearer hmt_0_x"), (401,)),
    "an empty token": (get("/api/sessions", "Authorization: Bearer "), (400, 401)),
    "another scheme": (get("/api/sessions", "Authorization: Basic OWNER"), (401,)),
    "a token with a space": (get("/api/sessions", "Authorization: Bearer OWNER x"), (401,)),
    "a token of two lines": (get("/api/sessions", "Authorization: Bearer OWNER\r\n x"), (400, 401)),
    "two tokens": (get("/api/sessions", LOOK, OWNER), (400,)),
    "a wrong token beside a good cookie": (get("/api/sessions", OLD, COOKIE), (401,)),
    "two cookies": (get("/api/sessions", "Cookie: a=b", COOKIE), (400,)),
    "a token in the address": (get("/api/sessions?token=OWNER"), (400,)),
    "a token in the address, beside a good one": (get("/api/sessions?access_token=OWNER", OWNER), (400,)),
    "a token in the address under any name": (get("/api/sessions?x=OWNER", OWNER), (400,)),
    "a token in the path": (get("/api/sessions/OWNER", OWNER), (400,)),
    "a token in the address of a socket": (get("S/ws?token=OWNER", *SOCKET), (400,)),
    "a code in the address": (get("/?code=CODE"), (400,)),
    # Names and pages of others
    "a name that was rebound": (get("/api/sessions", OWNER, host="Host: evil.example"), (421,)),
    "a name that was rebound, our port": (get("/", host="Host: evil.example:PORT"), (421,)),
    "a name that begins like ours": (
        get("/api/sessions", OWNER, host="Host: 127.0.0.1.evil.example:PORT"),
        (421,),
    ),
    "a name that ends like ours": (get("/api/sessions", OWNER, host="Host: evil.localhost:PORT"), (421,)),
    "another port": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:1"), (421,)),
    "a port that is none": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:x"), (400, 421)),
    "another address of loopback": (get("/api/sessions", OWNER, host="Host: 127.0.0.2:PORT"), (421,)),
    "all addresses": (get("/api/sessions", OWNER, host="Host: 0.0.0.0:PORT"), (421,)),
    "user before the name": (get("/api/sessions", OWNER, host="Host: a@127.0.0.1:PORT"), (400, 421)),
    "no name": (get("/api/sessions", OWNER, host="X: y"), (400,)),
    "an empty name": (get("/api/sessions", OWNER, host="Host: "), (400, 421)),
    "two names": (get("/api/sessions", OWNER, "Host: evil.example"), (400,)),
    "a name for a proxy": (
        get("/api/sessions", OWNER, "X-Forwarded-Host: HOST", host="Host: evil.example"),
        (421,),
    ),
    "a whole address": (
        get("http://evil.example/api/sessions", OWNER, host="Host: evil.example"),
        (400, 421),
    ),
    "another page reads": (get("/api/sessions", COOKIE, EVIL), (403,)),
    "another page writes": (post("S/messages", COOKIE, EVIL), (403,)),
    "another page approves": (post("R", COOKIE, EVIL, body=YES), (403,)),
    "another page, Bearer": (post("S/messages", OWNER, EVIL), (403,)),
    "a page of nowhere": (post("S/messages", COOKIE, "Origin: null"), (403,)),
    "an origin that begins like ours": (
        post("S/messages", COOKIE, "Origin: http://HOST.evil.example"),
        (403,),
    ),
    "another port of this machine": (post("S/messages", COOKIE, "Origin: http://127.0.0.1:1"), (403,)),
    "another scheme of this machine": (post("S/messages", COOKIE, "Origin: https://HOST"), (403,)),
    "another name of this machine": (post("S/messages", COOKIE, "Origin: http://localhost:PORT"), (403,)),
    "two origins": (post("S/messages", COOKIE, "Origin: http://HOST", EVIL), (400,)),
    "an origin of two": (post("S/messages", COOKIE, "Origin: http://HOST https://evil.example"), (403,)),
    "cookie without origin writes": (post("S/messages", COOKIE), (403,)),
    "cookie without origin approves": (post("R", COOKIE, body=YES), (403,)),
    "cookie without origin stops": (post("S/interrupt", COOKIE, body="{}"), (403,)),
    "cookie read from another site": (get("/api/sessions", COOKIE, "Sec-Fetch-Site: cross-site"), (403,)),
    "cookie read from another port": (get("/api/sessions", COOKIE, "Sec-Fetch-Site: same-site"), (403,)),
    "a form of another page": (
        post("S/messages", COOKIE, EVIL, "Sec-Fetch-Site: cross-site").replace(
            JSON, "Content-Type: text/plain"
        ),
        (403,),
    ),
    "a form with a token": (post("S/messages", OWNER).replace(JSON, "Content-Type: text/plain"), (415,)),
    "asking before writing": (
        get("S/messages", EVIL, "Access-Control-Request-Method: POST").replace("GET", "OPTIONS", 1),
        (403,),
    ),
    "socket with a cookie and no origin": (get("S/ws", *SOCKET, COOKIE), (403,)),
    "socket of another page": (get("S/ws", *SOCKET, COOKIE, EVIL), (403,)),
    "socket of another page, Bearer": (get("S/ws", *SOCKET, OWNER, EVIL), (403,)),
    "socket of nowhere": (get("S/ws", *SOCKET, COOKIE, "Origin: null"), (403,)),
    "socket under another name": (get("S/ws", *SOCKET, OWNER, host="Host: evil.example"), (421,)),
    "socket that is none": (get("S/ws", OWNER), (404, 426)),
    # Pairing
    "a used code": (post("/api/pair", body='{"code":"CODE"}'), (403, 429)),
    "an expired code": (post("/api/pair", body='{"code":"EXPIRED"}'), (403,)),
    "an expired code, replayed": (post("/api/pair", body='{"code":"EXPIRED"}'), (403,)),
    "an expired code for a cookie": (post("/api/pair", body='{"code":"EXPIRED","cookie":true}'), (403,)),
    "a made-up code": (post("/api/pair", body='{"code":"AAAA-BBBB-CCCC"}'), (403, 429)),
    "the beginning of a code": (post("/api/pair", body='{"code":"AAAA"}'), (403, 429)),
    "no code": (post("/api/pair", body="{}"), (400,)),
    "a code that is not text": (post("/api/pair", body='{"code":["CODE"]}'), (400,)),
    "pairing from another page": (post("/api/pair", EVIL, body='{"code":"CODE"}'), (403,)),
    "pairing with a wish for more": (post("/api/pair", body='{"code":"CODE","scope":"approve"}'), (400,)),
    "pairing by reading": (get("/api/pair"), (401, 405)),
    # What a device may
    "look approves": (post("R", LOOK, body=YES), (403,)),
    "look talks": (post("S/messages", LOOK), (403,)),
    "look stops": (post("S/interrupt", LOOK, body="{}"), (403,)),
    "look begins": (post("/api/sessions", LOOK, body='{"workspace":"/tmp"}'), (403,)),
    "look completes": (post("/v1/chat/completions", LOOK, body="{}"), (403, 404)),
    "talk approves": (post("R", TALK, body=YES), (403,)),
    "talk approves for good": (post("R", TALK, body='{"answer":"always"}'), (403,)),
    "approving what is not there": (post("S/requests/approval-1", OWNER, body=YES), (404,)),
    "approving with a word of one's own": (post("R", OWNER, body='{"answer":"yes"}'), (400,)),
    "approving with true": (post("R", OWNER, body='{"answer":true}'), (400,)),
    "approving with nothing": (post("R", OWNER, body="{}"), (400,)),
    # Paths
    "out of the page": (get("/../../etc/passwd"), (400, 404)),
    "out of the page, spelled": (get("/%2e%2e/%2e%2e/etc/passwd"), (400, 404)),
    "out of the page, slashes spelled": (get("/assets/..%2f..%2fetc%2fpasswd"), (400, 404)),
    "out of the page, twice spelled": (get("/assets/%252e%252e%252fetc"), (400, 404)),
    "out of the page, other slashes": (get("/assets/..%5c..%5cetc"), (400, 404)),
    "around the doors": (get("//api/sessions"), (400, 401)),
    "around the doors, dots": (get("/x/../api/sessions"), (400, 401)),
    "around the doors, spelled": (get("/%61pi/sessions"), (401,)),
    "around the doors, capitals": (get("/API/sessions"), (404,)),
    "a NUL": (get("/assets/app.js%00.html"), (400, 404)),
    "a session that is a path": (get("/api/sessions/..%2f..%2fdevices.json/events", OWNER), (400, 404)),
    "a session with a NUL": (get("/api/sessions/a%00b", OWNER), (400, 404)),
    "a workspace that is a file": (post("/api/sessions", OWNER, body='{"workspace":"/etc/passwd"}'), (400,)),
    "a workspace from here": (post("/api/sessions", OWNER, body='{"workspace":"../.."}'), (400,)),
    "a workspace that is not text": (post("/api/sessions", OWNER, body='{"workspace":["/"]}'), (400,)),
    # Sizes and forms
    "a large head": (get("/api/sessions", OWNER, "X: " + "a" * 20_000), (431,)),
    "many headers": (get("/api/sessions", OWNER, *[f"X-{n}: {'a' * 90}" for n in range(300)]), (431,)),
    "a long address": (get("/" + "a" * 20_000), (431,)),
    "a large body": (post("R", OWNER, body="x" * 1_000_001), (413,)),
    "a body said to be large": (
        f"POST R HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: 99999999\r\n\r\n",
        (413,),
    ),
    "a large body in chunks": (
        f"POST R HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        + f"80000\r\n{'x' * 0x80000}\r\n" * 2
        + "0\r\n\r\n",
        (413,),
    ),
    "a large chunk that never comes": (
        f"POST R HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "ffffffffffffffffffff1\r\n",
        (400,),
    ),
    "deep JSON": (post("S/messages", OWNER, body="[" * 100_000), (400,)),
    "JSON that is a list": (post("S/messages", OWNER, body="[]"), (400,)),
    "no JSON": (post("S/messages", OWNER, body="text=greet"), (400,)),
    "a message of nothing": (post("S/messages", OWNER, body='{"text":" "}'), (400,)),
    "a message in another way": (post("S/messages", OWNER, body='{"text":"x","how":"approve"}'), (400,)),
    "a message with more": (post("S/messages", OWNER, body='{"text":"x","approve":true}'), (400,)),
    "an image that is none": (
        post("S/messages", OWNER, body='{"text":"x","images":[{"name":"../../a.png","data":"aGk="}]}'),
        (400,),
    ),
    # Smuggling
    "two lengths": (post("S/messages", OWNER, "Content-Length: 3"), (400,)),
    "length and chunks": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/sessions HTTP/1.1\r\nHost: HOST\r\n\r\n",
        (400,),
    ),
    "an odd encoding": (post("S/messages", OWNER, "Transfer-Encoding: xchunked"), (400, 501)),
    "chunked twice": (post("S/messages", OWNER, "Transfer-Encoding: chunked, chunked"), (400, 501)),
    "a length with a sign": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: +2\r\n\r\n{{}}",
        (400,),
    ),
    "a length below nothing": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: -1\r\n\r\n",
        (400,),
    ),
    "a header without a name": (get("/api/sessions", OWNER, ": x"), (400,)),
    "a space before the colon": (get("/api/sessions", "Authorization : Bearer OWNER"), (400, 401)),
    "a folded header": (get("/api/sessions", "X: a\r\n\tAuthorization: Bearer OWNER"), (400, 401)),
    "a bare line feed": ("GET /api/sessions HTTP/1.1\nHost: HOST\n\n", (400, 401)),
    "a NUL in a header": (get("/api/sessions", OWNER, "X: a\0b"), (400,)),
    "no version": ("GET /api/sessions\r\n\r\n", (400,)),
    "another protocol": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 421)),
    "TLS": ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, 408)),
    "a proxy request": ("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", (400, 421)),
    "tracing": (get("/api/sessions", OWNER).replace("GET", "TRACE", 1), (403, 405)),
    "deleting": (get("S", OWNER).replace("GET", "DELETE", 1), (403, 405)),
    "another method by a header": (get("S/messages", LOOK, "X-HTTP-Method-Override: POST"), (404, 405)),
    "an upgrade to HTTP/2": (get("/api/sessions", "Connection: Upgrade", "Upgrade: h2c"), (401,)),
    "an old HTTP without a name": ("GET /api/sessions HTTP/1.0\r\n\r\n", (400, 421)),
}


def spelled(text: str, words: dict[str, str], port: int) -> bytes:
    for name in ("HOST", "LOOK", "TALK", "OWNER", "OLD", "CODE", "EXPIRED"):
        text = text.replace(f"={name}", f"={words[name]}").replace(f" {name}", f" {words[name]}")
        text = text.replace(f'"{name}"', f'"{words[name]}"').replace(f"//{name}", f"//{words[name]}")
        text = text.replace(f"/{name} ", f"/{words[name]} ").replace(f":{name}", f":{words[name]}")
    text = text.replace(" S/", f" {words['S']}/").replace(" S HTTP", f" {words['S']} HTTP")
    text = text.replace(" R HTTP", f" {words['R']} HTTP").replace("PORT", str(port))
    data = text.encode("latin-1")
    return data.replace(b"LENGTH", str(len(data.partition(b"\r\n\r\n")[2])).encode(), 1)
