"""Further hostile requests: odd hosts, origins and paths, headers twice, smuggling, sizes, forms."""

from __future__ import annotations

from tests.app.service.hostile_requests import (
    COOKIE,
    EVIL,
    JSON,
    LOOK,
    MESSAGE,
    OLD,
    OWNER,
    SOCKET,
    TALK,
    YES,
    get,
    post,
)

ASKED = '{"model":"hermes","messages":[{"role":"user","content":"greet"}]}'
SPELLINGS: dict[str, tuple[str, tuple[int, ...]]] = {
    # Odd spellings of hosts
    "a name with a dot behind": (get("/api/sessions", OWNER, host="Host: localhost.:PORT"), (421,)),
    "an address with a dot behind": (get("/api/sessions", OWNER, host="Host: 127.0.0.1.:PORT"), (421,)),
    "a short address": (get("/api/sessions", OWNER, host="Host: 127.1:PORT"), (421,)),
    "an address as a number": (get("/api/sessions", OWNER, host="Host: 2130706433:PORT"), (421,)),
    "an octal address": (get("/api/sessions", OWNER, host="Host: 0177.0.0.1:PORT"), (421,)),
    "a hexadecimal address": (get("/api/sessions", OWNER, host="Host: 0x7f000001:PORT"), (421,)),
    "a mapped address": (get("/api/sessions", OWNER, host="Host: [::ffff:127.0.0.1]:PORT"), (421,)),
    "an address of version six without brackets": (
        get("/api/sessions", OWNER, host="Host: ::1:PORT"),
        (421,),
    ),
    "half a bracket": (get("/api/sessions", OWNER, host="Host: [::1:PORT"), (400, 421)),
    "words behind a bracket": (get("/api/sessions", OWNER, host="Host: [::1]evil:PORT"), (400, 421)),
    "any address of version six": (get("/api/sessions", OWNER, host="Host: [::]:PORT"), (421,)),
    "an address with a zone": (get("/api/sessions", OWNER, host="Host: [fe80::1%25lo]:PORT"), (400, 421)),
    "punycode": (get("/api/sessions", OWNER, host="Host: xn--localhst-c1a.example:PORT"), (421,)),
    "a name in other letters": (get("/api/sessions", OWNER, host="Host: loc\u00e0lhost:PORT"), (400, 421)),
    "a name with a space in it": (get("/api/sessions", OWNER, host="Host: 127.0.0.1 evil:PORT"), (400, 421)),
    "two names in one": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:PORT, evil.example"), (400, 421)),
    "a path in the name": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:PORT/x"), (400, 421)),
    "a user in front": (get("/api/sessions", OWNER, host="Host: evil:x@127.0.0.1:PORT"), (400, 421)),
    "a user behind": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:PORT@evil.example"), (400, 421)),
    "a scheme in the name": (get("/api/sessions", OWNER, host="Host: http://127.0.0.1:PORT"), (400, 421)),
    "a port of many digits": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:0000PORT"), (400, 421)),
    "a port with a sign": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:+PORT"), (400, 421)),
    "no port": (get("/api/sessions", OWNER, host="Host: 127.0.0.1"), (421,)),
    "an empty port": (get("/api/sessions", OWNER, host="Host: 127.0.0.1:"), (421,)),
    "the page under another name": (get("/", host="Host: rebound.example:PORT"), (421,)),
    "pairing under another name": (
        post("/api/pair", body='{"code":"CODE"}', host="Host: evil.example"),
        (421,),
    ),
    "a messenger under another name": (
        post("/gateways/webhook", body="{}", host="Host: evil.example"),
        (421,),
    ),
    # Odd spellings of origins
    "an origin in capitals": (post("S/messages", COOKIE, "Origin: HTTP://HOST"), (403,)),
    "an origin with a slash": (post("S/messages", COOKIE, "Origin: http://HOST/"), (403,)),
    "an origin with a path": (post("S/messages", COOKIE, "Origin: http://HOST/x"), (403,)),
    "an origin with a user": (post("S/messages", COOKIE, "Origin: http://evil@HOST"), (403,)),
    "an origin with a dot": (post("S/messages", COOKIE, "Origin: http://127.0.0.1.:PORT"), (403,)),
    "an origin without a port": (post("S/messages", COOKIE, "Origin: http://127.0.0.1"), (403,)),
    "an origin of version six": (post("S/messages", COOKIE, "Origin: http://[::1]:PORT"), (403,)),
    "an origin of a file": (post("S/messages", COOKIE, "Origin: file://"), (403,)),
    "an origin of an extension": (post("S/messages", COOKIE, "Origin: chrome-extension://abcdef"), (403,)),
    "an origin of nothing": (post("S/messages", COOKIE, "Origin: "), (403,)),
    "an origin without a scheme": (post("S/messages", COOKIE, "Origin: HOST"), (403,)),
    "an origin of a socket": (post("S/messages", COOKIE, "Origin: ws://HOST"), (403,)),
    "a referer in place of an origin": (post("S/messages", COOKIE, "Referer: http://HOST/"), (403,)),
    "an origin for the next proxy": (
        post("S/messages", COOKIE, EVIL, "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example"),
        (403,),
    ),
    # Where a request says it was made
    "a read from elsewhere, capitals": (get("/api/sessions", COOKIE, "Sec-Fetch-Site: Cross-Site"), (403,)),
    "a read from an unknown place": (get("/api/sessions", COOKIE, "Sec-Fetch-Site: else"), (403,)),
    "a read from nowhere told": (get("/api/sessions", COOKIE, "Sec-Fetch-Site: "), (403,)),
    "two places": (
        get("/api/sessions", COOKIE, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
        (400,),
    ),
    "history read from elsewhere": (get("S/history", COOKIE, "Sec-Fetch-Site: cross-site"), (403,)),
    "events read from elsewhere": (get("S/events?after=0", COOKIE, "Sec-Fetch-Site: same-site"), (403,)),
    "models read from elsewhere": (get("/v1/models", COOKIE, "Sec-Fetch-Site: cross-site"), (403,)),
    "who am I, from elsewhere": (get("/api/me", COOKIE, "Sec-Fetch-Site: cross-site"), (403,)),
    "pairing from elsewhere": (
        post("/api/pair", "Sec-Fetch-Site: cross-site", body='{"code":"CODE"}'),
        (403,),
    ),
    "a socket from elsewhere": (get("S/ws", *SOCKET, COOKIE, "Sec-Fetch-Site: cross-site"), (403,)),
    # Every way that changes something, with the cookie and from another page or none
    **{
        f"{what}, {who}": (post(path, COOKIE, *more, body=body), (403,))
        for what, path, body in (
            ("a session begun", "/api/sessions", '{"workspace":"/tmp"}'),
            ("a message", "S/messages", MESSAGE),
            ("a stop", "S/interrupt", "{}"),
            ("an approval", "R", YES),
            ("a move", "S/move", '{"to":"telegram"}'),
            ("a completion", "/v1/chat/completions", "{}"),
            ("a response", "/v1/responses", "{}"),
        )
        for who, more in (("no origin", ()), ("another page", (EVIL,)), ("no page", ("Origin: null",)))
    },
    "a move by who looks": (post("S/move", LOOK, body='{"to":"telegram"}'), (403,)),
    "a move to nowhere": (post("S/move", OWNER, body="{}"), (400,)),
    "a move with more": (post("S/move", OWNER, body='{"to":"telegram","scope":"approve"}'), (400,)),
    # Twice
    "one cookie twice": (
        get("/api/sessions", "Cookie: hermes_token_PORT=OWNER; hermes_token_PORT=OWNER"),
        (400,),
    ),
    "an old and a good cookie": (
        get("/api/sessions", "Cookie: hermes_token_PORT=OLD; hermes_token_PORT=OWNER"),
        (400,),
    ),
    "a good and an old cookie": (
        get("/api/sessions", "Cookie: hermes_token_PORT=OWNER ; hermes_token_PORT=OLD"),
        (400,),
    ),
    "a cookie of another name": (get("/api/sessions", "Cookie: hermes_token2=OWNER"), (401,)),
    "a cookie of another port": (get("/api/sessions", "Cookie: hermes_token_1=OWNER"), (401,)),
    "a cookie of no port": (get("/api/sessions", "Cookie: hermes_token=OWNER"), (401,)),
    "a cookie of TLS without it": (
        get("/api/sessions", "Cookie: __Host-hermes_token_PORT=OWNER"),
        (401,),
    ),
    "a cookie in capitals": (get("/api/sessions", "Cookie: HERMES_TOKEN_PORT=OWNER"), (401,)),
    "a cookie that is a Bearer": (get("/api/sessions", 'Cookie: hermes_token_PORT="Bearer OWNER"'), (401,)),
    "two forms of a body": (post("S/messages", OWNER, "Content-Type: text/plain"), (400,)),
    "two sessions": (
        post("/v1/chat/completions", OWNER, "X-Hermes-Session: a", "X-Hermes-Session: b", body="{}"),
        (400,),
    ),
    "two lengths alike": (post("S/messages", OWNER, "Content-Length: LENGTH"), (400,)),
    "a list of lengths": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: 2, 3\r\n\r\n{{}}",
        (400,),
    ),
    "two encodings": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n"
        "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        (400, 501),
    ),
    # Smuggling
    "chunks and a length behind them": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n"
        "Content-Length: 5\r\n\r\n0\r\n\r\nPOST R HTTP/1.1\r\n\r\n",
        (400,),
    ),
    "an encoding with a tab": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding:\tchunked\r\n"
        "Content-Length: 5\r\n\r\n0\r\n\r\n",
        (400,),
    ),
    "an encoding with a space before the colon": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding : chunked\r\n"
        "Content-Length: 2\r\n\r\n{}",
        (400,),
    ),
    "a chunk of no number": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0x2\r\n{}\r\n0\r\n\r\n",
        (400,),
    ),
    "a chunk with a sign": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "-2\r\n{}\r\n0\r\n\r\n",
        (400,),
    ),
    "a chunk that ends elsewhere": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\n{}XX\r\n0\r\n\r\n",
        (400,),
    ),
    "a length in hexadecimal": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: 0x2\r\n\r\n{{}}",
        (400,),
    ),
    "a length of other digits": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\nContent-Length: \u00b2\r\n\r\n{{}}",
        (400,),
    ),
    "a carriage return in a header": (get("/api/sessions", OWNER, "X: a\rOrigin: http://HOST"), (400,)),
    "a request in an unread body": (
        post("/nothing", OWNER, body="GET /api/sessions HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        (404, 405),
    ),
    "a space in the address": ("GET /api/sessions /x HTTP/1.1\r\nHost: HOST\r\n\r\n", (400,)),
    "a method in small letters": (get("/api/sessions").replace("GET", "get", 1), (400, 401, 405)),
    "a method of nobody": (get("/api/sessions").replace("GET", "GE\x01T", 1), (400,)),
    # Paths
    "dots behind the doors": (get("/assets/../api/sessions"), (400, 401)),
    "dots, spelled once": (get("/assets/%2e%2e/api/sessions"), (400, 401)),
    "dots, spelled by half": (get("/assets/.%2e/api/sessions"), (400, 401)),
    "one dot": (get("/./api/sessions"), (400, 401)),
    "a slash behind": (get("/api/sessions/"), (401, 404)),
    "a parameter in the path": (get("/api;x=1/sessions"), (404,)),
    "a slash spelled": (get("/api%2fsessions"), (401, 404)),
    "a slash spelled twice": (get("/api%252fsessions"), (404,)),
    "a backslash": (get("/api\\sessions"), (400, 404)),
    "an overlong dot": (get("/assets/%c0%ae%c0%ae/x"), (400, 404)),
    "a full-width dot": (get("/assets/%ef%bc%8e%ef%bc%8e/x"), (400, 404)),
    "a NUL before": (get("/%00/api/sessions"), (400, 404)),
    "a NUL behind": (get("/api/sessions%00"), (400, 401, 404)),
    "a line end in the path": (get("/assets/%0d%0aSet-Cookie:x"), (400, 404)),
    "an address without a slash": ("GET api/sessions HTTP/1.1\r\nHost: HOST\r\n\r\n", (400, 401, 404)),
    "a star": ("GET * HTTP/1.1\r\nHost: HOST\r\n\r\n", (400, 404)),
    "another scheme in front": (get("file:///etc/passwd"), (400, 404)),
    "a fragment": (get("/#/api/sessions"), (400, 404)),
    "the source of the service": (get("/assets/../service.py"), (400, 404)),
    "a hidden file": (get("/.env"), (404,)),
    "the list of devices": (get("/serve/devices.json"), (404,)),
    "a file of the assets that is none": (get("/assets/devices.json"), (404,)),
    "a canvas out of its folder": (get("S/canvas/..%2f..%2fconfig.yaml", OWNER), (400, 404)),
    "a canvas without a token": (get("S/canvas/" + "0" * 64), (401,)),
    "a canvas that is none": (get("S/canvas/" + "0" * 64, LOOK), (404,)),
    # Tokens where they do not belong
    "a token as a password": (get("/api/sessions", "Authorization: Basic bG9vazpPV05FUg=="), (401,)),
    "a token in a subprotocol": (get("S/ws", *SOCKET, "Sec-WebSocket-Protocol: bearer, OWNER"), (401,)),
    "a token in a header of one's own": (get("/api/sessions", "X-Api-Key: OWNER"), (401,)),
    "a token for a proxy": (get("/api/sessions", "Proxy-Authorization: Bearer OWNER"), (401,)),
    "a token in the body": (post("S/messages", body='{"text":"x","token":"OWNER"}'), (401,)),
    "a token in the address, spelled": (get("/api/sessions?t%6fken=x", OWNER), (400,)),
    "a token in the address, capitals": (get("/api/sessions?TOKEN=x", OWNER), (400,)),
    "a key in the address": (get("/v1/models?api_key=OWNER"), (400,)),
    "a token in the address of the page": (get("/?token=OWNER"), (400,)),
    "a token in the address of a stream": (get("S/events?authorization=OWNER"), (400,)),
    "many parts in the address": (get("/api/sessions?" + "a=1&" * 60, OWNER), (400,)),
    "a Bearer without a space": (get("/api/sessions", "Authorization: BearerOWNER"), (401,)),
    "a Bearer and something else": (get("/api/sessions", "Authorization: Bearer OWNER, Basic x"), (401,)),
    "a token in other letters": (get("/api/sessions", "Authorization: Bearer hmt_\u00e9_x"), (401, 429)),
    "a very long token": (get("/api/sessions", "Authorization: Bearer hmt_" + "a" * 5_000), (401, 429)),
    # Sizes and forms
    "a packed body": (post("S/messages", OWNER, "Content-Encoding: gzip"), (415,)),
    "a body packed twice": (post("S/messages", OWNER, "Content-Encoding: gzip, gzip"), (415,)),
    "a body packed anew": (post("/v1/chat/completions", OWNER, "Content-Encoding: br", body="{}"), (415,)),
    "a packed transfer": (
        f"POST S/messages HTTP/1.1\r\nHost: HOST\r\n{OWNER}\r\n{JSON}\r\n"
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        (400, 501),
    ),
    "a large stop": (post("S/interrupt", OWNER, body='{"x":"' + "a" * 1_000_001 + '"}'), (413,)),
    "a text that is too long": (
        post("S/messages", OWNER, body='{"text":"' + "a" * 400_001 + '"}'),
        (413,),
    ),
    "many images": (
        post("S/messages", OWNER, body='{"text":"x","images":[' + ",".join(["{}"] * 11) + "]}"),
        (400,),
    ),
    "a number of many digits": (post("S/messages", OWNER, body='{"text":' + "9" * 5_000 + "}"), (400,)),
    "a number that is none": (post("S/messages", OWNER, body='{"text":NaN}'), (400,)),
    "bytes that are not text": (post("S/messages", OWNER, body='{"text":"\xff\xfe"}'), (400,)),
    "an answer that is a list": (post("R", OWNER, body='{"answer":["once"]}'), (400,)),
    "an answer in capitals": (post("R", OWNER, body='{"answer":"ONCE"}'), (400,)),
    "an answer with a space": (post("R", OWNER, body='{"answer":"once "}'), (400,)),
    "an answer of a number": (post("R", OWNER, body='{"answer":1}'), (400,)),
    "an answer of nothing": (post("R", OWNER, body='{"answer":null}'), (400,)),
    "two answers of a scope too small": (post("R", TALK, body='{"answer":"deny","answer":"once"}'), (403,)),
    "an answer to another session": (post("/api/sessions/none/requests/approval-1", OWNER, body=YES), (404,)),
    "a number of events below nothing": (get("S/events?after=-1", OWNER), (400,)),
    "a number of events that is none": (get("S/events?after=1e9", OWNER), (400,)),
    "a wait of years": (get("S/events?after=%d9%a2&wait=1", OWNER), (400,)),
    "a completion that is a list": (post("/v1/chat/completions", OWNER, body="[]"), (400,)),
    "a completion with tools": (
        post(
            "/v1/chat/completions", OWNER, body='{"model":"hermes","messages":[{"role":"user"}],"tools":[{}]}'
        ),
        (400,),
    ),
    "an image from elsewhere": (
        post(
            "/v1/chat/completions",
            OWNER,
            body='{"model":"hermes","messages":[{"role":"user","content":[{"type":"image_url",'
            '"image_url":{"url":"http://169.254.169.254/"}}]}]}',
        ),
        (400,),
    ),
    "an image of this machine": (
        post(
            "/v1/responses",
            OWNER,
            body='{"model":"hermes","input":[{"role":"user","content":[{"type":"input_image",'
            '"image_url":"file:///etc/passwd"}]}]}',
        ),
        (400,),
    ),
    "a response of another": (
        post(
            "/v1/responses", OWNER, body='{"model":"hermes","input":"x","previous_response_id":"resp_../x_1"}'
        ),
        (400, 404),
    ),
    # Endpoints in OpenAI's form
    "models with an old token": (get("/v1/models", OLD), (401, 429)),
    "a completion with an old token": (post("/v1/chat/completions", OLD, body="{}"), (401, 429)),
    "a response without a token": (post("/v1/responses", body="{}"), (401,)),
    "a response with an old token": (post("/v1/responses", OLD, body="{}"), (401, 429)),
    "a token as OpenAI's browsers send it": (get("/v1/models", "Api-Key: OWNER"), (401,)),
    "a completion under another name": (
        post("/v1/chat/completions", OWNER, body=ASKED, host="Host: evil.example:PORT"),
        (421,),
    ),
    "a response under another name": (
        post("/v1/responses", OWNER, body=ASKED, host="Host: evil.example"),
        (421,),
    ),
    "a completion of another page, Bearer": (post("/v1/chat/completions", OWNER, EVIL, body=ASKED), (403,)),
    "a response of another page, Bearer": (post("/v1/responses", OWNER, EVIL, body=ASKED), (403,)),
    "a completion as a form": (
        post("/v1/chat/completions", OWNER, body=ASKED).replace(JSON, "Content-Type: text/plain"),
        (415,),
    ),
    "a response by who looks": (post("/v1/responses", LOOK, body=ASKED), (403,)),
    "a completion in no session": (
        post("/v1/chat/completions", OWNER, "X-Hermes-Session: none", body=ASKED),
        (404,),
    ),
    "a completion in a path": (
        post("/v1/chat/completions", OWNER, "X-Hermes-Session: ../../devices", body=ASKED),
        (404,),
    ),
    "a completion by a model that is a path": (
        post("/v1/chat/completions", OWNER, body=ASKED.replace("hermes", "../../etc/passwd")),
        (404,),
    ),
    "a model that is a path": (get("/v1/models/..%2f..%2fetc%2fpasswd", OWNER), (400, 404)),
    "a completion without a model": (
        post("/v1/chat/completions", OWNER, body='{"messages":[{"role":"user","content":"x"}]}'),
        (400,),
    ),
    "many completions in one": (
        post("/v1/chat/completions", OWNER, body=ASKED.replace("{", '{"n":99,', 1)),
        (400,),
    ),
    "a completion with functions": (
        post("/v1/chat/completions", OWNER, body=ASKED.replace("{", '{"functions":[{"name":"x"}],', 1)),
        (400,),
    ),
    "a large completion": (
        post("/v1/chat/completions", OWNER, "Expect: 100-continue", body="").replace("LENGTH", "99999999"),
        (413,),
    ),
    "a completion without an end": (
        post("/v1/chat/completions", OWNER, body='{"model":"hermes","messages":[' + "[" * 50_000),
        (400,),
    ),
    "a response with tools": (
        post("/v1/responses", OWNER, body='{"model":"hermes","input":"x","tools":[{"type":"web_search"}]}'),
        (400,),
    ),
    "deleting a response": (
        get("/v1/responses/resp_x", OWNER).replace("GET", "DELETE", 1),
        (403, 404, 405),
    ),
    # Pairing
    "a code of other letters": (
        post("/api/pair", body='{"code":"\\u0410\\u0410\\u0410\\u0410"}'),
        (403, 429),
    ),
    "a code of many letters": (post("/api/pair", body='{"code":"' + "A" * 200 + '"}'), (413,)),
    "a code of nothing": (post("/api/pair", body='{"code":""}'), (403, 429)),
    "a code twice": (post("/api/pair", body='{"code":"CODE","code":"CODE"}'), (403, 429)),
    "a code in a form": (
        post("/api/pair", body="code=CODE").replace(JSON, "Content-Type: application/x-www-form-urlencoded"),
        (415,),
    ),
    "a code without a form": (post("/api/pair", body='{"code":"CODE"}').replace(JSON, "X: y"), (415,)),
    "a code in a large body": (post("/api/pair", body='{"code":"' + "A" * 20_000 + '"}'), (413,)),
    # Sockets
    "a socket of a closed session": (get("/api/sessions/none/ws", *SOCKET, OWNER), (404,)),
    "a socket of an old version": (
        get(
            "S/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", SOCKET[-1], OWNER
        ),
        (400, 426),
    ),
    "a socket without a key": (
        get("S/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", OWNER),
        (400,),
    ),
    "a socket by writing": (post("S/ws", *SOCKET, OWNER), (400,)),
    "a socket with a body": (
        get("S/ws", *SOCKET, "Content-Length: 5", "Transfer-Encoding: chunked", OWNER),
        (400,),
    ),
    "a socket behind a number that is none": (get("S/ws?after=x", *SOCKET, OWNER), (400,)),
    "a socket on the page": (get("/", *SOCKET), (401, 403, 404)),
    "a socket on a list": (get("/api/sessions", *SOCKET, OWNER), (400, 403, 404, 426)),
    "a socket with a token of another page": (get("S/ws", *SOCKET, COOKIE, "Origin: https://HOST"), (403,)),
    # Messengers
    "a messenger that is not there": (post("/gateways/telegram", body="{}"), (404,)),
    "a messenger without a name": (post("/gateways/", body="{}"), (401, 404)),
    "a messenger out of its folder": (post("/gateways/..%2fapi%2fsessions", body="{}"), (400, 404)),
    "a messenger by another way": (
        post("/gateways/webhook", body="{}").replace("POST", "PUT", 1),
        (401, 405),
    ),
}
