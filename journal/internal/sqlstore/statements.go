package sqlstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// Statements are the texts of a dialect. Their parameters are in the order in which the
// columns are named, unless the comment says otherwise.
type Statements struct {
	dialect Dialect

	Version    string // of the schema
	PutVersion string

	PutRevision string
	Revision    string

	RunByID    string // see [RunOf]
	RunByKey   string // ns, trigger, key; see [RunOf]
	ReleaseKey string // id
	EndRun     string // see [EndArgs]
	PutBlob    string // see [BlobArgs]

	CountResumed string // of one id, if it has not ended
	ClearResumed string // of one id
	Retry        string // see [RetryArgs]
	Unfinished   string // see [ListedOf]
	Records      string // of one id; see [RecordOf]

	Claim      string // see [ClaimArgs]
	Requeue    string // see [RequeueArgs]; then ForgetBlobs
	Pause      string // ns, name, 0 or 1
	NextItems  string // ns, queue, qkey, priority, a time, and a limit; see [ListedOf]
	NextDue    string // ns, queue, qkey, priority, a time; a time
	Priority   string // ns, queue, qkey, a priority that is greater; the next, if there is one
	QueueKey   string // ns, queue, a key before; the next, if there is one
	FirstKey   string // ns, queue; likewise
	Taken      string // ns, queue; see [ListedOf]
	Begun      string // ns, queue, a time, and a limit; times
	OldestItem string // ns, queue; a time
	Queues     string // see [StateOf]

	ForgetHolds string // id; those of an item
	ForgetBlobs string // likewise; the input stays

	PutWait    string // see [WaitArgs]
	DeleteWait string // run, pos
	AnyWait    string // one row, if there is a wait
	Waiting    string // ns, event, key; see [WaitOf]
	Token      string // hash; see [WaitOf]
	Due        string // a time and a limit; see [WaitOf]
	Next       string // a time
	Waits      string // of one run; see [WaitOf]

	PutSignal    string // see [SignalArgs]
	TakeSignal   string // see [SignalKey]
	Signals      string // ns, event, key, a time; see [SignalOf]
	Untaken      string // a time; see [SignalOf], without payloads
	Known        string // one row, if there is a signal; see [SignalKey]
	Expired      string // keys of signals of a time and before, and a limit; see [KeyOf]
	DeleteSignal string // see [SignalKey]

	PutTick  string // ns, plan, a time
	DropTick string // likewise: those of the plan before it
	LastTick string // ns, plan

	Oldest      string // id, ended of ended runs: a limit, five times
	ExpiredOK   string // id of runs that ended well before a time, and a limit
	ExpiredElse string // the same of those that ended otherwise: a time and a limit, three times, and a limit

	DeleteRun     string // id; the same for the rest
	DeleteRecords string
	DeleteBlobs   string
	DeleteHolds   string

	Orphans []string // each returns a table and a number: rows of a run that does not exist
	Idle    string   // a number: runs in the state Waiting that wait for nothing
}

const (
	runColumns = "id, ns, trigger, revision, level, state, key, key_until, input, input_hash, packed, created, port, queue, qkey, priority, due, answer, error, ended"
	runWidth   = 20

	recordColumns = "run, n, pos, node, type, op, port, payload, input_hash, packed, at, key"
	recordWidth   = 12

	listed = `id, ns, trigger, revision, level, state, key, key_until, input_hash, error, recoveries, created, ended, port, retried, moved, queue, qkey, priority, due, attempts, begun`

	// selectRun reads blobs in the same statement: between two, a run may be removed.
	selectRun = `SELECT ` + listed + `, packed,
CASE WHEN packed & 1 <> 0 THEN (SELECT body FROM blobs WHERE run = runs.id AND hash = runs.input) ELSE input END,
CASE WHEN packed & 2 <> 0 THEN (SELECT body FROM blobs WHERE run = runs.id AND hash = runs.answer) ELSE answer END
FROM runs `

	selectWaits = "SELECT run, pos, ns, event, key, due, token_hash FROM holds "

	// ofWaiting is a subquery, and not a join: whatever a planner takes the tables for, it reads
	// the waits in the order of their index and stops at the limit.
	ofWaiting = "(SELECT state FROM runs WHERE id = holds.run) = 2 "

	// awaited is true for a signal that a run waits for, and has before its time was over. Perhaps the run is paused.
	awaited = "EXISTS (SELECT 1 FROM holds WHERE holds.ns = signals.ns AND holds.event = signals.event AND holds.key = signals.key " +
		"AND EXISTS (SELECT 1 FROM records WHERE records.run = holds.run AND records.pos = holds.pos AND records.at < signals.until)) "
	// notAside is of waits whose run was not put aside.
	notAside = "(SELECT state FROM runs WHERE id = holds.run) < 7 "

	lastRecord = "(SELECT max(n) FROM records WHERE run = runs.id)"

	listRuns = `SELECT ` + listed + ` FROM runs `

	// These are the conditions of partial indexes, word by word.
	ofQueued = "state = 0 AND queue IS NOT NULL AND ns = ? AND queue = ? "
	ofTaken  = "queue IS NOT NULL AND state > 0 AND state < 3 "

	// ofItem is for what follows a [Statements.Requeue] in a commit.
	ofItem = "(SELECT queue FROM runs WHERE id = ?) IS NOT NULL"
)

// NewStatements returns the statements of a dialect.
func NewStatements(d Dialect) *Statements {
	s := &Statements{
		dialect:    d,
		Version:    "SELECT value FROM meta WHERE name = 'version'",
		PutVersion: "INSERT INTO meta (value, name) VALUES (?, 'version') ON CONFLICT (name) DO UPDATE SET value = excluded.value",

		PutRevision: "INSERT INTO revisions (hash, body, created) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		Revision:    "SELECT body FROM revisions WHERE hash = ?",

		RunByID:    selectRun + "WHERE id = ?",
		RunByKey:   selectRun + "WHERE ns = ? AND trigger = ? AND key = ?",
		ReleaseKey: "UPDATE runs SET key = NULL, key_until = NULL WHERE id = ?",
		EndRun:     "UPDATE runs SET state = ?, answer = ?, error = ?, packed = (packed & 1) | ?, ended = ? WHERE id = ?",
		PutBlob:    "INSERT INTO blobs (run, hash, body, size) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",

		CountResumed: "UPDATE runs SET recoveries = recoveries + 1, state = 1, ended = NULL WHERE id = ? AND state NOT BETWEEN 3 AND 6",
		ClearResumed: "UPDATE runs SET recoveries = 0 WHERE id = ?",
		Retry: `UPDATE runs SET state = 1, answer = NULL, error = NULL, ended = NULL, packed = packed & 1, recoveries = 0, revision = coalesce(?, revision),
moved = CASE WHEN CAST(? AS INTEGER) = 1 THEN 1 ELSE moved END, retried = CASE WHEN CAST(? AS INTEGER) = 1 THEN ` + lastRecord + ` ELSE retried END
WHERE id = ? AND (state IN (2, 4, 6) OR state >= 7)`,
		Unfinished: listRuns + "WHERE state = 1 ORDER BY created, id",
		Records: `SELECT run, n, pos, node, type, op, port, input_hash, key, at, packed,
CASE WHEN packed & 1 <> 0 THEN (SELECT body FROM blobs WHERE run = records.run AND hash = records.payload) ELSE payload END
FROM records WHERE run = ? ORDER BY n`,

		Claim: `UPDATE runs SET revision = COALESCE(?, revision), state = 1, recoveries = 0, begun = ?,
key = CASE WHEN ? = 1 THEN NULL ELSE key END, key_until = CASE WHEN ? = 1 THEN NULL ELSE key_until END WHERE id = ? AND state = 0`,
		Requeue: `UPDATE runs SET state = 0, due = ?, attempts = ?, error = ?, input = COALESCE(?, input), packed = COALESCE(?, packed & 1), answer = NULL, ended = NULL,
recoveries = 0, revision = CASE WHEN ? = 1 THEN '' ELSE revision END, retried = CASE WHEN CAST(? AS INTEGER) = 1 THEN ` + lastRecord + ` ELSE retried END
WHERE id = ? AND queue IS NOT NULL`,
		Pause:      "INSERT INTO queues (ns, name, paused) VALUES (?, ?, ?) ON CONFLICT (ns, name) DO UPDATE SET paused = excluded.paused",
		NextItems:  listRuns + "WHERE " + ofQueued + "AND qkey = ? AND priority = ? AND due <= ? ORDER BY due, id LIMIT ?",
		NextDue:    "SELECT due FROM runs WHERE " + ofQueued + "AND qkey = ? AND priority = ? AND due > ? ORDER BY due LIMIT 1",
		Priority:   "SELECT priority FROM runs WHERE " + ofQueued + "AND qkey = ? AND priority < ? ORDER BY priority DESC LIMIT 1",
		QueueKey:   "SELECT qkey FROM runs WHERE " + ofQueued + "AND qkey > ? ORDER BY qkey LIMIT 1",
		FirstKey:   "SELECT qkey FROM runs WHERE " + ofQueued + "ORDER BY qkey LIMIT 1",
		Taken:      listRuns + "WHERE " + ofTaken + "AND ns = ? AND queue = ?",
		Begun:      "SELECT begun FROM runs WHERE begun IS NOT NULL AND ns = ? AND queue = ? AND begun > ? ORDER BY begun DESC LIMIT ?",
		OldestItem: "SELECT due FROM runs WHERE " + ofQueued + "ORDER BY due LIMIT 1",
		Queues: `SELECT ns, name, max(paused), sum(queued), sum(taken), min(oldest) FROM (
SELECT ns, queue AS name, 0 AS paused, count(*) AS queued, 0 AS taken, min(due) AS oldest FROM runs WHERE state = 0 AND queue IS NOT NULL GROUP BY ns, queue
UNION ALL SELECT ns, queue, 0, 0, count(*), NULL FROM runs WHERE ` + ofTaken + `GROUP BY ns, queue
UNION ALL SELECT ns, name, paused, 0, 0, NULL FROM queues WHERE paused = 1) AS parts GROUP BY ns, name ORDER BY ns, name`,

		ForgetHolds: "DELETE FROM holds WHERE run = ? AND " + ofItem,
		ForgetBlobs: "DELETE FROM blobs WHERE run = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = blobs.run AND (runs.queue IS NULL OR runs.packed & 1 <> 0 AND runs.input = blobs.hash))",

		PutWait: `INSERT INTO holds (run, pos, ns, event, key, due, token_hash) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, pos)
DO UPDATE SET ns = excluded.ns, event = excluded.event, key = excluded.key, due = excluded.due, token_hash = excluded.token_hash`,
		DeleteWait: "DELETE FROM holds WHERE run = ? AND pos = ?",
		AnyWait:    "SELECT 1 FROM holds LIMIT 1",
		Waiting:    selectWaits + "WHERE ns = ? AND event = ? AND key = ? AND " + notAside + "ORDER BY run, pos",
		Token:      selectWaits + "WHERE token_hash = ? ORDER BY run, pos LIMIT 1",
		Due:        selectWaits + "WHERE due <= ? AND " + ofWaiting + "ORDER BY due, run, pos LIMIT ?",
		Next:       "SELECT due FROM holds WHERE due IS NOT NULL AND " + ofWaiting + "ORDER BY due LIMIT 1",
		Waits:      selectWaits + "WHERE run = ? ORDER BY pos",

		// A signal that is taken has no event, so that the index of events has the others alone.
		PutSignal:    "INSERT INTO signals (id, ns, event, key, payload, until, came) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		TakeSignal:   "UPDATE signals SET event = '', key = '', payload = NULL WHERE id = ?",
		Signals:      "SELECT id, ns, event, key, payload, until FROM signals WHERE ns = ? AND event = ? AND key = ? AND event <> '' AND (until > ? OR " + awaited + ") ORDER BY came, id",
		Untaken:      "SELECT id, ns, event, key, NULL, until FROM signals WHERE event <> '' AND (until > ? OR " + awaited + ") ORDER BY came, id",
		Known:        "SELECT 1 FROM signals WHERE id = ?",
		Expired:      "SELECT id FROM signals WHERE until <= ? AND NOT " + awaited + "ORDER BY until LIMIT ?",
		DeleteSignal: "DELETE FROM signals WHERE id = ?",

		PutTick:  "INSERT INTO ticks (ns, trigger, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		DropTick: "DELETE FROM ticks WHERE ns = ? AND trigger = ? AND at < ?",
		LastTick: "SELECT at FROM ticks WHERE ns = ? AND trigger = ? ORDER BY at DESC LIMIT 1",

		DeleteRun:     "DELETE FROM runs WHERE id = ?",
		DeleteRecords: "DELETE FROM records WHERE run = ?",
		DeleteBlobs:   "DELETE FROM blobs WHERE run = ?",
		DeleteHolds:   "DELETE FROM holds WHERE run = ?",

		Idle: "SELECT count(*) FROM runs WHERE state = 2 AND NOT EXISTS (SELECT 1 FROM holds WHERE holds.run = runs.id)",
	}
	// A branch for each state: every one reads the start of its part of the index.
	branch := func(state journal.State, rest string) string {
		return "SELECT * FROM (SELECT id, ended FROM runs WHERE state >= 3 AND state = " + strconv.Itoa(int(state)) + rest + " ORDER BY ended LIMIT ?) AS s" + strconv.Itoa(int(state))
	}
	var oldest, otherwise []string
	for state := journal.OK; state.Ended(); state++ {
		oldest = append(oldest, branch(state, ""))
		if state != journal.OK {
			otherwise = append(otherwise, branch(state, " AND ended < ?"))
		}
	}
	s.Oldest = strings.Join(oldest, " UNION ALL ") + " ORDER BY ended LIMIT ?"
	s.ExpiredElse = strings.Join(otherwise, " UNION ALL ") + " ORDER BY ended LIMIT ?"
	s.ExpiredOK = branch(journal.OK, " AND ended < ?")
	for _, table := range []string{"records", "blobs", "holds"} {
		s.Orphans = append(s.Orphans, "SELECT '"+table+"', count(*) FROM "+table+" WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = "+table+".run)")
	}
	for _, text := range []*string{
		&s.PutVersion, &s.PutRevision, &s.Revision, &s.RunByID, &s.RunByKey, &s.ReleaseKey, &s.EndRun, &s.PutBlob, &s.CountResumed, &s.ClearResumed, &s.Retry,
		&s.Records, &s.PutWait, &s.DeleteWait, &s.Waiting, &s.Token, &s.Due, &s.Waits, &s.PutSignal, &s.TakeSignal, &s.Signals, &s.Untaken, &s.Known, &s.Expired, &s.DeleteSignal,
		&s.Claim, &s.Requeue, &s.Pause, &s.NextItems, &s.NextDue, &s.Priority, &s.QueueKey, &s.FirstKey, &s.Taken, &s.Begun, &s.OldestItem, &s.ForgetHolds, &s.ForgetBlobs,
		&s.PutTick, &s.DropTick, &s.LastTick,
		&s.Oldest, &s.ExpiredOK, &s.ExpiredElse, &s.DeleteRun, &s.DeleteRecords, &s.DeleteBlobs, &s.DeleteHolds,
	} {
		*text = s.dialect.number(*text)
	}
	return s
}

// All returns every text, with inserts of one and of two rows, for tests.
func (s *Statements) All() []string {
	list, _ := s.List(journal.Filter{Namespace: "n", Trigger: "t", States: []journal.State{journal.OK, journal.Dead}, Since: time.UnixMilli(1), After: journal.ID{1}})
	return append([]string{
		s.Version, s.PutVersion, s.PutRevision, s.Revision, s.RunByID, s.RunByKey, s.ReleaseKey, s.EndRun, s.PutBlob, s.CountResumed, s.ClearResumed, s.Retry,
		s.Unfinished, s.Records, s.PutWait, s.DeleteWait, s.AnyWait, s.Waiting, s.Token, s.Due, s.Next, s.Waits, s.PutSignal, s.TakeSignal, s.Signals, s.Untaken, s.Known, s.Expired, s.DeleteSignal, s.Idle,
		s.PutTick, s.DropTick, s.LastTick, s.Claim, s.Requeue, s.Pause, s.NextItems, s.NextDue, s.Priority, s.QueueKey, s.FirstKey, s.Taken, s.Begun, s.OldestItem, s.Queues, s.ForgetHolds, s.ForgetBlobs,
		s.Oldest, s.ExpiredOK, s.ExpiredElse, s.DeleteRun, s.DeleteRecords, s.DeleteBlobs, s.DeleteHolds,
		s.InsertRuns(1), s.InsertRuns(2), s.InsertRecords(1), s.InsertRecords(2), list,
	}, s.Orphans...)
}

// InsertRuns inserts some runs; see [RunArgs]. Those whose id or key exists are left out.
func (s *Statements) InsertRuns(n int) string {
	return s.dialect.number("INSERT INTO runs (" + runColumns + ") VALUES " + tuples(n, runWidth) + " ON CONFLICT DO NOTHING")
}

// InsertRecords inserts some records; see [RecordArgs].
func (s *Statements) InsertRecords(n int) string {
	return s.dialect.number("INSERT INTO records (" + recordColumns + ") VALUES " + tuples(n, recordWidth))
}

// List returns a statement for a filter, with its arguments; see [ListedOf].
func (s *Statements) List(f journal.Filter) (text string, args []any) {
	var where []string
	and := func(condition string, arg any) {
		where = append(where, condition)
		args = append(args, arg)
	}
	if f.Namespace != "" {
		and("ns = ?", f.Namespace)
	}
	if f.Trigger != "" {
		and("trigger = ?", f.Trigger)
	}
	if f.Queue != "" {
		and("queue = ?", f.Queue)
	}
	if len(f.States) > 0 {
		for _, state := range f.States {
			args = append(args, int64(state))
		}
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")")
	}
	if !f.Since.IsZero() {
		and("created >= ?", f.Since.UnixMilli())
	}
	if f.After != (journal.ID{}) {
		and("id < ?", f.After[:])
	}
	var b strings.Builder
	b.WriteString(listRuns)
	if len(where) > 0 {
		b.WriteString("WHERE " + strings.Join(where, " AND ") + " ")
	}
	// Ids begin with the time at which they were made, and the primary key has them in order.
	b.WriteString("ORDER BY id DESC LIMIT ?")
	limit := int64(f.Limit)
	if limit <= 0 {
		limit = DefaultLimit
	}
	return s.dialect.number(b.String()), append(args, limit)
}

// DefaultLimit is how many runs a list has at most, if the filter does not say.
const DefaultLimit = 200

// tuples returns "(?, ?), (?, ?)".
func tuples(n, width int) string {
	one := "(?" + strings.Repeat(", ?", width-1) + ")"
	return one + strings.Repeat(", "+one, n-1)
}

// number writes parameters as the dialect does: no text of ours has a question mark
// elsewhere.
func (d Dialect) number(text string) string {
	if d != Postgres {
		return text
	}
	var b strings.Builder
	n := 0
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			n++
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
	}
	return b.String()
}
