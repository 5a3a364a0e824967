package postgres

import (
	"context"
	"fmt"
	"strings"
)

// The last line of the comment of a publication notes the slots that were made for it, each with
// the timeline of the server: "uniflow slots: shop_search@1". What the user has written above it
// stays. A standby that has taken over has the comment, and not the slot. So a slot that is gone
// differs from one that has never been there, and one that was made again by hand from one that
// has all changes: changes are not left out without a word.
type notes struct {
	text  string   // of the user
	slots []string // with their timelines
}

const notePrefix = "uniflow slots: "

func parseNotes(comment string) notes {
	text, last := "", comment
	if i := strings.LastIndexByte(comment, '\n'); i >= 0 {
		text, last = comment[:i], comment[i+1:]
	}
	list, ok := strings.CutPrefix(last, notePrefix)
	if !ok {
		return notes{text: comment}
	}
	return notes{text, strings.Fields(list)}
}

// of returns the timeline that a slot was noted with.
func (n notes) of(slot string) (timeline string, ok bool) {
	for _, s := range n.slots {
		if name, at, _ := strings.Cut(s, "@"); name == slot {
			return at, true
		}
	}
	return "", false
}

// without is the comment that has no note of a slot.
func (n notes) without(slot string) string {
	var left []string
	for _, s := range n.slots {
		if name, _, _ := strings.Cut(s, "@"); name != slot {
			left = append(left, s)
		}
	}
	if len(left) == 0 {
		return n.text
	}
	return strings.TrimPrefix(n.text+"\n"+notePrefix+strings.Join(left, " "), "\n")
}

// forget is the statement that lets a node begin again.
func (s *setup) forget(n notes) string {
	return "COMMENT ON PUBLICATION " + ident(s.publication) + " IS " + literal(n.without(s.slot))
}

// note notes the slot at the publication. Another node may do so at the same time: the server
// reads the comment and writes it under a lock.
func (s *setup) note(ctx context.Context, l *link) error {
	const lock = "SELECT pg_advisory_lock(hashtext('uniflow notes'), hashtext(%s))"
	if _, err := l.query(ctx, lock, literal(s.publication)); err != nil {
		return err
	}
	err := s.noteAlone(ctx, l)
	if _, free := l.query(context.WithoutCancel(ctx), strings.Replace(lock, "lock(", "unlock(", 1), literal(s.publication)); err == nil {
		err = free
	}
	return err
}

func (s *setup) noteAlone(ctx context.Context, l *link) error {
	rows, err := l.query(ctx, "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = %s", literal(s.publication))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("the publication %s is gone", s.publication)
	}
	n := parseNotes(rows[0][0])
	n = parseNotes(n.without(s.slot))
	n.slots = append(n.slots, s.slot+"@"+s.timeline)
	return s.run(ctx, l, "publication", "COMMENT ON PUBLICATION "+ident(s.publication)+" IS "+literal(n.without("")))
}
