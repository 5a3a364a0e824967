package postgres

import (
	"errors"
	"sync"

	"github.com/jackc/pglogrepl"
)

// A progress says up to where the server may forget: the end of the last transaction before
// which, itself included, all is settled.
type progress struct {
	sync.Mutex
	next      int64  // the offset of the next message that has not come before
	settled   int64  // all up to it are settled
	txns      []*txn // those that are not settled, in the order of their ends
	heard     pglogrepl.LSN
	received  pglogrepl.LSN // the end of the last transaction that has come
	confirmed pglogrepl.LSN
	changed   chan struct{} // has one when something was settled
}

// A txn is a transaction that was received, or a snapshot.
type txn struct {
	commit  pglogrepl.LSN // where its commit is; names it
	xid     uint32        // 0 of a snapshot
	end     pglogrepl.LSN // behind its commit; 0 says nothing
	first   int64         // the offset of its first message
	n       int64         // how many messages it has had
	emitted int64         // of those, since it began for the last time
	whole   bool          // it has come to its end
}

func newProgress() *progress { return &progress{next: 1, changed: make(chan struct{}, 1)} }

// begin returns the transaction with a commit. One that comes again, after a connection was
// lost, gives its messages the same offsets. It is nil if all of them are settled: the server
// sends from where it was told to when the connection was made, and the rest may have been
// settled since.
func (p *progress) begin(commit pglogrepl.LSN, xid uint32) (*txn, error) {
	p.Lock()
	defer p.Unlock()
	if xid != 0 && commit < p.confirmed {
		return nil, nil
	}
	for _, t := range p.txns {
		if t.commit == commit && t.xid == xid {
			t.emitted = 0
			return t, nil
		}
		if t.commit == commit && xid != 0 && t.xid != 0 {
			return nil, errOther
		}
	}
	p.abandon()
	t := &txn{commit: commit, xid: xid, first: p.next}
	p.txns = append(p.txns, t)
	return t, nil
}

// abandon ends what will not go on: a snapshot that was interrupted.
func (p *progress) abandon() {
	for _, t := range p.txns {
		t.whole = true
	}
}

var errOther = errors.New("a transaction came again with other changes: its changes cannot be told from others; start the program again")

// offset returns the offset of the next message of a transaction.
func (p *progress) offset(t *txn) (int64, error) {
	p.Lock()
	defer p.Unlock()
	offset := t.first + t.emitted
	if t.emitted++; t.emitted > t.n {
		if offset != p.next {
			return 0, errOther
		}
		t.n, p.next = t.emitted, p.next+1
	}
	return offset, nil
}

// commit notes the end of a transaction.
func (p *progress) commit(t *txn, end pglogrepl.LSN) {
	p.Lock()
	defer p.Unlock()
	t.end, t.whole = end, true
	p.received = max(p.received, end)
	p.advance()
}

// hear notes that all that ends before a position has been received.
func (p *progress) hear(at pglogrepl.LSN) {
	p.Lock()
	defer p.Unlock()
	p.heard = max(p.heard, at)
	p.advance()
}

// settle notes that the messages up to an offset are settled.
func (p *progress) settle(offset int64) {
	p.Lock()
	p.settled = max(p.settled, offset)
	p.advance()
	p.Unlock()
	select {
	case p.changed <- struct{}{}:
	default: // it has one
	}
}

// advance moves what is confirmed. The caller holds the lock.
func (p *progress) advance() {
	for len(p.txns) > 0 {
		t := p.txns[0]
		if !t.whole || t.first+t.n-1 > p.settled {
			return
		}
		p.confirmed = max(p.confirmed, t.end)
		p.txns = p.txns[1:]
	}
	p.txns = nil
	p.confirmed = max(p.confirmed, p.heard)
}

// done reports whether all that was received is settled.
func (p *progress) done() bool {
	p.Lock()
	defer p.Unlock()
	return len(p.txns) == 0
}

// position returns what is confirmed, and what was received.
func (p *progress) position() (confirmed, received pglogrepl.LSN) {
	p.Lock()
	defer p.Unlock()
	return p.confirmed, max(p.heard, p.received, p.confirmed)
}
