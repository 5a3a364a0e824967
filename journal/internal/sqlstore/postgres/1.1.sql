-- Waits and signals. came is when a signal came, in microseconds since 1970; no two that one
-- program has written are the same.

ALTER TABLE signals ADD COLUMN came bigint NOT NULL DEFAULT 0;

CREATE INDEX signals_until ON signals (until);
CREATE INDEX holds_token ON holds (token_hash) WHERE token_hash IS NOT NULL;

-- runs_live is in the place of runs_open, which had the runs that wait, too: they may be a
-- million, and a program that starts would read them all. With both, each start and each end
-- of a run would write one entry more. A program of version 1.0 works without runs_open: it
-- reads the table once, when it starts.
DROP INDEX runs_open;
CREATE INDEX runs_live ON runs (owner) WHERE state < 2;
