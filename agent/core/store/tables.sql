CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    workspace TEXT NOT NULL,
    model TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    parent TEXT,                    -- the session whose agent delegated this one
    archived INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0 -- the last number that was set aside for one of its events
) WITHOUT ROWID;
CREATE INDEX sessions_by_update ON sessions (updated);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;

CREATE TABLE nodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    parent INTEGER,
    depth INTEGER NOT NULL,         -- nodes on the path from the root to this one
    kind TEXT NOT NULL,
    created REAL NOT NULL,
    size INTEGER NOT NULL,          -- characters of the searchable text
    data TEXT NOT NULL,             -- JSON object
    content TEXT NOT NULL,
    body TEXT                       -- searchable text; NULL: it is the content; empty: not searchable
);
CREATE INDEX nodes_by_session ON nodes (session);
CREATE INDEX nodes_by_parent ON nodes (parent);

CREATE TABLE heads (
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    node INTEGER,
    updated REAL NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;

CREATE TABLE drafts (               -- assistant messages that are still being streamed
    session TEXT NOT NULL,
    head TEXT NOT NULL,
    content TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    updated REAL NOT NULL,
    PRIMARY KEY (session, head)
) WITHOUT ROWID;

CREATE TABLE calls (                -- what became of each tool call
    node INTEGER NOT NULL,          -- the assistant node that asked for it
    call TEXT NOT NULL,
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,            -- running, done, failed, denied, interrupted
    started REAL,
    ended REAL,
    result INTEGER,                 -- the tool node
    PRIMARY KEY (node, call)
) WITHOUT ROWID;
CREATE INDEX calls_by_session ON calls (session);

CREATE TABLE discarded (session TEXT PRIMARY KEY) WITHOUT ROWID;

-- The indexes keep no text of their own. Document sizes are not kept either: nothing is ranked by SQLite.
CREATE VIEW searchable AS SELECT id, coalesce(body, content) AS body FROM nodes WHERE body IS NOT '';
CREATE VIRTUAL TABLE words USING fts5(
    body, content='searchable', content_rowid='id', columnsize=0, tokenize='unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE trigrams USING fts5(
    body, content='searchable', content_rowid='id', columnsize=0, tokenize='trigram'
);

CREATE TRIGGER nodes_are_final BEFORE UPDATE ON nodes
BEGIN SELECT RAISE(ABORT, 'nodes are never changed'); END;

CREATE TABLE marks (                -- labels and bookmarks of a person
    session TEXT NOT NULL,
    node INTEGER NOT NULL,
    label TEXT NOT NULL,
    bookmarked INTEGER NOT NULL,
    updated REAL NOT NULL,
    PRIMARY KEY (session, node)
) WITHOUT ROWID;

CREATE TABLE operations (           -- what can be undone and redone
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    label TEXT NOT NULL,
    created REAL NOT NULL,
    head_before TEXT NOT NULL,
    node_before INTEGER,
    step_before INTEGER NOT NULL,
    head_after TEXT NOT NULL,
    node_after INTEGER,
    step_after INTEGER NOT NULL,
    undone INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;

CREATE TABLE requests (             -- what requests to models took: see agent.session.spending
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created REAL NOT NULL,
    day TEXT NOT NULL,              -- the local calendar day it left on, as 2026-03-01
    process INTEGER NOT NULL,       -- who is at it while it is open
    session TEXT NOT NULL,          -- the session of the main agent, for requests of its subagents too
    project TEXT NOT NULL,
    agent TEXT NOT NULL,            -- main, side, or agent: and a name
    model TEXT NOT NULL,
    state TEXT NOT NULL,            -- open, counted by the provider, or assumed
    input INTEGER NOT NULL,         -- tokens; the most it could take unless it was counted
    cached INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost REAL                       -- US dollars; NULL: no price was known
);
CREATE INDEX requests_by_day ON requests (day);
CREATE INDEX requests_by_session ON requests (session);
CREATE TABLE requests_owed (last INTEGER NOT NULL); -- kept empty

CREATE TABLE learnings (            -- what failed and what worked: see agent.knowledge.learnings
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,              -- digest of tool, program, subcommand and normalised error
    project TEXT NOT NULL,          -- empty: everywhere
    status TEXT NOT NULL,
    origin TEXT NOT NULL,
    tool TEXT NOT NULL,
    program TEXT NOT NULL,
    subcommand TEXT NOT NULL,
    error TEXT NOT NULL,
    pattern TEXT NOT NULL,
    error_type TEXT NOT NULL,
    fix TEXT NOT NULL,
    fix_kind TEXT NOT NULL,
    fix_key TEXT NOT NULL,
    context TEXT NOT NULL,
    tags TEXT NOT NULL,             -- JSON list
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    times_used INTEGER NOT NULL,
    confirmed INTEGER NOT NULL,
    refuted INTEGER NOT NULL,
    session TEXT NOT NULL,
    node INTEGER,
    evidence TEXT NOT NULL,         -- JSON object
    depends TEXT NOT NULL           -- JSON object
);
CREATE INDEX learnings_by_key ON learnings (key, project);
CREATE INDEX learnings_by_program ON learnings (project, program, status);

CREATE TABLE learning_calls (       -- the calls that failed, by the key of what is essential of them
    call TEXT NOT NULL,
    project TEXT NOT NULL,
    learning INTEGER NOT NULL,
    PRIMARY KEY (call, project, learning)
) WITHOUT ROWID;
CREATE INDEX learning_calls_by_learning ON learning_calls (learning);

CREATE TABLE jobs (                 -- work on time: see agent.automation.schedule
    id TEXT PRIMARY KEY,
    intent TEXT NOT NULL,           -- JSON object: what was meant, never only an instant
    state TEXT NOT NULL,            -- active, paused, done
    anchor INTEGER NOT NULL,        -- seconds (UTC) from which it counts
    looked INTEGER NOT NULL,        -- due times up to it were decided about
    next INTEGER,                   -- its next due time; NULL: there is none
    runs INTEGER NOT NULL           -- those that count for its number of repetitions
) WITHOUT ROWID;
CREATE TABLE job_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    due INTEGER NOT NULL,           -- milliseconds (UTC); those of the schedule are whole seconds
    why TEXT NOT NULL,              -- due, missed, asked, woken
    state TEXT NOT NULL,            -- waiting, running, done, failed, skipped, interrupted
    earliest INTEGER NOT NULL,      -- seconds before which it does not begin
    started REAL,
    ended REAL,
    cuts INTEGER NOT NULL DEFAULT 0,
    session TEXT NOT NULL DEFAULT '',
    output TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    receipt TEXT NOT NULL DEFAULT '{}', -- JSON object: model, tokens, cost, refused
    delivery TEXT NOT NULL DEFAULT '',  -- empty, waiting, done, failed
    tries INTEGER NOT NULL DEFAULT 0,
    retry REAL NOT NULL DEFAULT 0,
    UNIQUE (job, due)
);
CREATE INDEX job_runs_open ON job_runs (state) WHERE state IN ('waiting', 'running');
CREATE INDEX job_runs_to_deliver ON job_runs (delivery) WHERE delivery = 'waiting';

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
