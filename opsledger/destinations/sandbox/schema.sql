CREATE TABLE requests (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  received_at REAL NOT NULL,
  method TEXT NOT NULL,
  target TEXT NOT NULL,
  headers TEXT NOT NULL,
  body BLOB NOT NULL,            -- the first bytes of it
  body_bytes INTEGER NOT NULL,
  body_sha256 TEXT NOT NULL,
  complete INTEGER NOT NULL,     -- 0: the body did not arrive, or was not read
  identity TEXT NOT NULL,
  key TEXT,
  behaviour TEXT NOT NULL,
  options TEXT NOT NULL,
  acted INTEGER NOT NULL DEFAULT 0,
  acted_at REAL,
  replay_of INTEGER,             -- the request whose answer was given again
  status INTEGER                 -- as sent; NULL: no status left the peer
);
CREATE INDEX requests_by_identity ON requests (identity, number);

CREATE TABLE effects (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  identity TEXT NOT NULL,
  key TEXT,
  request INTEGER NOT NULL,
  reference TEXT NOT NULL,
  fields TEXT NOT NULL
);
CREATE INDEX effects_by_identity ON effects (identity, number);
CREATE INDEX effects_by_reference ON effects (reference, number);

CREATE TABLE records (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  reference TEXT NOT NULL UNIQUE,
  identity TEXT NOT NULL,
  subject TEXT NOT NULL,         -- JSON, so that any text compares exactly
  fields TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  visible_at REAL NOT NULL,      -- to searches
  readable_at REAL NOT NULL,     -- by its id
  deliver_at REAL,               -- NULL: never
  outcome TEXT
);
CREATE INDEX records_by_identity ON records (kind, identity, number);
CREATE INDEX records_by_subject ON records (kind, subject, number);

CREATE TABLE keys (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  digest TEXT NOT NULL,
  request INTEGER NOT NULL,
  first_at REAL NOT NULL,
  running INTEGER NOT NULL,
  reference TEXT,                -- NULL: nothing was made
  said TEXT,                     -- the answer as it was given
  meant TEXT,                    -- the answer as it should have been
  PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE TABLE late (
  request INTEGER PRIMARY KEY,
  act_at REAL NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX late_by_time ON late (act_at);

CREATE TABLE reports (
  record INTEGER NOT NULL,
  copy INTEGER NOT NULL,
  due_at REAL NOT NULL,
  url TEXT NOT NULL,
  tries_count INTEGER NOT NULL DEFAULT 0,
  ended TEXT,                    -- NULL: still to be posted
  PRIMARY KEY (record, copy)
) WITHOUT ROWID;
CREATE INDEX reports_due ON reports (due_at) WHERE ended IS NULL;

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
