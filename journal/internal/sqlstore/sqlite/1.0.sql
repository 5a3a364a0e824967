-- The first schema. Times are milliseconds since 1970; NULL is none, and an empty payload.
-- Numbers of 64 bits without a sign are kept by their bits. seal is the number of the key
-- that payloads of the row are encrypted with.

CREATE TABLE meta (
	name TEXT PRIMARY KEY NOT NULL,
	value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
	id BLOB PRIMARY KEY NOT NULL,
	ns TEXT NOT NULL,
	trigger TEXT NOT NULL,
	revision TEXT NOT NULL,
	level INTEGER NOT NULL,
	state INTEGER NOT NULL,
	owner TEXT,
	epoch INTEGER,
	due INTEGER,
	queue TEXT,
	qkey TEXT,
	priority INTEGER,
	key BLOB,
	key_until INTEGER,
	input BLOB,
	input_hash INTEGER NOT NULL,
	answer BLOB,
	error BLOB, -- bytes, as it may be encrypted, and need not be UTF-8
	packed INTEGER NOT NULL DEFAULT 0, -- 1: input, 2: answer is the hash of a row of blobs
	seal INTEGER,
	attempts INTEGER NOT NULL DEFAULT 0,
	recoveries INTEGER NOT NULL DEFAULT 0,
	parent BLOB,
	origin BLOB,
	created INTEGER NOT NULL,
	ended INTEGER,
	records INTEGER,
	bytes INTEGER
) WITHOUT ROWID;

CREATE UNIQUE INDEX runs_key ON runs (ns, trigger, key) WHERE key IS NOT NULL;
CREATE INDEX runs_queued ON runs (queue, priority DESC, due, id) WHERE state = 0 AND queue IS NOT NULL;
CREATE INDEX runs_open ON runs (owner) WHERE state < 3;
CREATE INDEX runs_aside ON runs (state, ended) WHERE state >= 3;

CREATE TABLE records (
	run BLOB NOT NULL,
	n INTEGER NOT NULL,
	pos INTEGER NOT NULL,
	node TEXT NOT NULL,
	type INTEGER NOT NULL,
	op INTEGER NOT NULL,
	port INTEGER NOT NULL,
	payload BLOB,
	input_hash INTEGER NOT NULL,
	packed INTEGER NOT NULL DEFAULT 0, -- 1: payload is the hash of a row of blobs
	seal INTEGER,
	took BLOB,
	copied INTEGER,
	at INTEGER NOT NULL,
	PRIMARY KEY (run, n)
) WITHOUT ROWID;

CREATE TABLE blobs (
	run BLOB NOT NULL,
	hash BLOB NOT NULL,
	body BLOB NOT NULL,
	size INTEGER NOT NULL,
	seal INTEGER,
	PRIMARY KEY (run, hash)
);

CREATE TABLE holds (
	run BLOB NOT NULL,
	pos INTEGER NOT NULL,
	ns TEXT NOT NULL,
	event TEXT,
	key TEXT,
	due INTEGER,
	token_hash BLOB,
	PRIMARY KEY (run, pos)
) WITHOUT ROWID;

CREATE INDEX holds_due ON holds (due) WHERE due IS NOT NULL;
CREATE INDEX holds_event ON holds (ns, event, key) WHERE event IS NOT NULL;

CREATE TABLE signals (
	id BLOB PRIMARY KEY NOT NULL,
	ns TEXT NOT NULL,
	event TEXT NOT NULL,
	key TEXT NOT NULL,
	payload BLOB,
	seal INTEGER,
	until INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX signals_event ON signals (ns, event, key);

CREATE TABLE revisions (
	hash TEXT PRIMARY KEY NOT NULL,
	body BLOB NOT NULL,
	seal INTEGER,
	created INTEGER
);

CREATE TABLE queues (
	ns TEXT NOT NULL,
	name TEXT NOT NULL,
	paused INTEGER NOT NULL DEFAULT 0,
	running INTEGER NOT NULL DEFAULT 0,
	tokens REAL,
	tokens_at INTEGER,
	PRIMARY KEY (ns, name)
) WITHOUT ROWID;

CREATE TABLE queue_keys (
	ns TEXT NOT NULL,
	queue TEXT NOT NULL,
	qkey TEXT NOT NULL,
	running INTEGER NOT NULL DEFAULT 0,
	served INTEGER,
	PRIMARY KEY (ns, queue, qkey)
) WITHOUT ROWID;

CREATE TABLE ticks (
	ns TEXT NOT NULL,
	trigger TEXT NOT NULL,
	at INTEGER NOT NULL,
	PRIMARY KEY (ns, trigger, at)
) WITHOUT ROWID;

CREATE TABLE replicas (
	id TEXT PRIMARY KEY NOT NULL,
	epoch INTEGER NOT NULL,
	version TEXT,
	addr TEXT,
	started INTEGER NOT NULL,
	beat INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE committers (
	replica TEXT NOT NULL,
	lane INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	batch INTEGER NOT NULL,
	PRIMARY KEY (replica, lane)
) WITHOUT ROWID;
