-- Further attempts. key is what attempts of the same thing have in common, in records of failures
-- and of what follows them; retried the number of the last record of the attempts before; moved
-- says that records are of another workflow.

ALTER TABLE records ADD COLUMN key INTEGER;
ALTER TABLE runs ADD COLUMN retried INTEGER;
ALTER TABLE runs ADD COLUMN moved INTEGER;

-- Queues. port is the out-port of the trigger at which a run begins, due of an item the time
-- before which it does not begin, begun when it last did.

ALTER TABLE runs ADD COLUMN port INTEGER;
ALTER TABLE runs ADD COLUMN begun INTEGER;

-- runs_items is in the place of runs_queued, which knew neither the namespace nor the key: the
-- next item of a key would have been behind all of the others.
DROP INDEX runs_queued;
CREATE INDEX runs_items ON runs (ns, queue, qkey, priority DESC, due, id) WHERE state = 0 AND queue IS NOT NULL;
CREATE INDEX runs_due ON runs (ns, queue, due) WHERE state = 0 AND queue IS NOT NULL;
CREATE INDEX runs_taken ON runs (ns, queue) WHERE queue IS NOT NULL AND state > 0 AND state < 3;
CREATE INDEX runs_begun ON runs (ns, queue, begun) WHERE begun IS NOT NULL;

-- runs_running is in the place of runs_live, which had the items that are queued, too: a
-- program that starts would read all of them. One of version 1.1 works without it: it reads the
-- table once, when it starts.
DROP INDEX runs_live;
CREATE INDEX runs_running ON runs (owner) WHERE state = 1;
