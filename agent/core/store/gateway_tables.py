"""Tables of messengers: what came in, what goes out, which chat talks to which session, who may."""

GATEWAY_TABLES = """
CREATE TABLE received (             -- what came by messengers: see agent.integrations.gateways
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gateway TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,          -- its id there: what is delivered again is known by it
    data TEXT NOT NULL,             -- JSON object
    at REAL NOT NULL,
    state TEXT NOT NULL,            -- waiting, handed to a session, taken (committed), done
    text TEXT NOT NULL DEFAULT '',  -- as it was handed over
    session TEXT NOT NULL DEFAULT '',
    node INTEGER,                   -- the message of the session that it became
    UNIQUE (gateway, chat, thread, kind, message)
);
CREATE INDEX received_open ON received (gateway, state) WHERE state != 'done';
CREATE INDEX received_by_node ON received (node) WHERE node IS NOT NULL;
CREATE TABLE deliveries (           -- what goes out by messengers
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    gateway TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT NOT NULL,
    kind TEXT NOT NULL,             -- text, ask, file
    body TEXT NOT NULL,             -- JSON object
    state TEXT NOT NULL,            -- draft, waiting, sent, failed
    message TEXT NOT NULL DEFAULT '', -- its id there; where there is one already, it is changed
    session TEXT NOT NULL DEFAULT '',
    node INTEGER,
    tries INTEGER NOT NULL DEFAULT 0,
    retry REAL NOT NULL DEFAULT 0,
    at REAL NOT NULL,
    problem TEXT NOT NULL DEFAULT ''
);
CREATE INDEX deliveries_open ON deliveries (gateway, state) WHERE state IN ('draft', 'waiting');
CREATE INDEX deliveries_asks ON deliveries (session) WHERE kind = 'ask';
CREATE TABLE gateway_places (       -- which session a chat or a thread of it talks to
    gateway TEXT NOT NULL,
    chat TEXT NOT NULL,
    thread TEXT NOT NULL,
    session TEXT NOT NULL,
    told INTEGER NOT NULL,          -- the last node that was handed to delivery
    is_group INTEGER NOT NULL,
    used REAL NOT NULL,
    PRIMARY KEY (gateway, chat, thread)
) WITHOUT ROWID;
CREATE INDEX gateway_places_by_session ON gateway_places (session);
CREATE TABLE gateway_people (
    gateway TEXT NOT NULL,
    person TEXT NOT NULL,
    name TEXT NOT NULL,
    chat TEXT NOT NULL,             -- where they were spoken to by themselves
    scope TEXT NOT NULL,            -- empty: has a code and nothing else
    code TEXT NOT NULL,             -- SHA-256 of the pairing code
    expires REAL NOT NULL,
    told REAL NOT NULL,             -- when a code was told last
    at REAL NOT NULL,
    PRIMARY KEY (gateway, person)
) WITHOUT ROWID;
CREATE TABLE gateway_states (
    gateway TEXT PRIMARY KEY,
    state TEXT NOT NULL,            -- connecting, running, waiting, stopped
    who TEXT NOT NULL,
    problem TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
"""
