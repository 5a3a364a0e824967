-- The first schema. Times are milliseconds since 1970; NULL is none, and an empty payload.
-- Numbers of 64 bits without a sign are kept by their bits. seal is the number of the key
-- that payloads of the row are encrypted with.

CREATE TABLE meta (
	name text PRIMARY KEY NOT NULL,
	value text NOT NULL
);

CREATE TABLE runs (
	id bytea PRIMARY KEY NOT NULL,
	ns text NOT NULL,
	trigger text NOT NULL,
	revision text NOT NULL,
	level smallint NOT NULL,
	state smallint NOT NULL,
	owner text,
	epoch bigint,
	due bigint,
	queue text,
	qkey text,
	priority integer,
	key bytea,
	key_until bigint,
	input bytea,
	input_hash bigint NOT NULL,
	answer bytea,
	error bytea, -- bytes, as it may be encrypted, and need not be UTF-8
	packed smallint NOT NULL DEFAULT 0, -- 1: input, 2: answer is the hash of a row of blobs
	seal integer,
	attempts integer NOT NULL DEFAULT 0,
	recoveries integer NOT NULL DEFAULT 0,
	parent bytea,
	origin bytea,
	created bigint NOT NULL,
	ended bigint,
	records integer,
	bytes bigint
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

CREATE UNIQUE INDEX runs_key ON runs (ns, trigger, key) WHERE key IS NOT NULL;
CREATE INDEX runs_queued ON runs (queue, priority DESC, due, id) WHERE state = 0 AND queue IS NOT NULL;
CREATE INDEX runs_open ON runs (owner) WHERE state < 3;
CREATE INDEX runs_aside ON runs (state, ended) WHERE state >= 3;

CREATE TABLE records (
	run bytea NOT NULL,
	n integer NOT NULL,
	pos bigint NOT NULL,
	node text NOT NULL,
	type smallint NOT NULL,
	op smallint NOT NULL,
	port integer NOT NULL,
	payload bytea,
	input_hash bigint NOT NULL,
	packed smallint NOT NULL DEFAULT 0, -- 1: payload is the hash of a row of blobs
	seal integer,
	took bytea,
	copied bigint,
	at bigint NOT NULL,
	PRIMARY KEY (run, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE blobs (
	run bytea NOT NULL,
	hash bytea NOT NULL,
	body bytea NOT NULL,
	size integer NOT NULL,
	seal integer,
	PRIMARY KEY (run, hash)
);

CREATE TABLE holds (
	run bytea NOT NULL,
	pos bigint NOT NULL,
	ns text NOT NULL,
	event text,
	key text,
	due bigint,
	token_hash bytea,
	PRIMARY KEY (run, pos)
);

CREATE INDEX holds_due ON holds (due) WHERE due IS NOT NULL;
CREATE INDEX holds_event ON holds (ns, event, key) WHERE event IS NOT NULL;

CREATE TABLE signals (
	id bytea PRIMARY KEY NOT NULL,
	ns text NOT NULL,
	event text NOT NULL,
	key text NOT NULL,
	payload bytea,
	seal integer,
	until bigint NOT NULL
);

CREATE INDEX signals_event ON signals (ns, event, key);

CREATE TABLE revisions (
	hash text PRIMARY KEY NOT NULL,
	body bytea NOT NULL,
	seal integer,
	created bigint
);

CREATE TABLE queues (
	ns text NOT NULL,
	name text NOT NULL,
	paused smallint NOT NULL DEFAULT 0,
	running integer NOT NULL DEFAULT 0,
	tokens double precision,
	tokens_at bigint,
	PRIMARY KEY (ns, name)
);

CREATE TABLE queue_keys (
	ns text NOT NULL,
	queue text NOT NULL,
	qkey text NOT NULL,
	running integer NOT NULL DEFAULT 0,
	served bigint,
	PRIMARY KEY (ns, queue, qkey)
);

CREATE TABLE ticks (
	ns text NOT NULL,
	trigger text NOT NULL,
	at bigint NOT NULL,
	PRIMARY KEY (ns, trigger, at)
);

CREATE TABLE replicas (
	id text PRIMARY KEY NOT NULL,
	epoch bigint NOT NULL,
	version text,
	addr text,
	started bigint NOT NULL,
	beat bigint NOT NULL
);

CREATE TABLE committers (
	replica text NOT NULL,
	lane integer NOT NULL,
	epoch bigint NOT NULL,
	batch bigint NOT NULL,
	PRIMARY KEY (replica, lane)
);
