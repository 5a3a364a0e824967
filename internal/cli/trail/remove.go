package trail

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail"
)

const discardLong = `Discard gives up a segment that is damaged or missing: its events are gone, and what was
asked of the store, exports and compactions do not fail for it any more. The file goes to
the folder lost of the store, which nothing reads. A segment that is sound stays.

Verify names the segment. If there is a backup of its file, copy it back instead.`

func discardCommand(a commands) *cobra.Command {
	var db, segment string
	cmd := storeCommand(&cobra.Command{
		Use: "discard FOLDER --segment FILE", Short: "Give up a segment that is damaged", Long: discardLong,
		Example: "  uniflow trail discard shop.trail --segment 000000000004-1.seg",
	}, &db)
	cmd.Flags().StringVar(&segment, "segment", "", "give up `FILE`, as trail verify names it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		command := cmd.CommandPath()
		if segment == "" {
			return app.Usagef(command, "add --segment FILE, as trail verify names it", "nothing to give up: --segment is missing")
		}
		if err := a.checkStore(db); err != nil {
			return err
		}
		var rows int64
		err := a.withTrail(cmd.Context(), db, trail.Options{}, func(ctx context.Context, s *trail.Store) (err error) {
			rows, err = s.Discard(ctx, segment)
			return err
		})
		if err == nil {
			a.Talk("gave up %s with %s; what is left of it is in %s\n", filepath.Base(segment), show.Count(rows, "event"), filepath.Join(db, "lost"))
		}
		return err
	}
	return cmd
}

const deleteLong = `Delete removes all events of users. They are gone from all answers at once, and from
the disk with the next compaction. Events of them that come later are kept.`

func deleteCommand(a commands) *cobra.Command {
	var db string
	var users []string
	cmd := storeCommand(&cobra.Command{
		Use: "delete FOLDER --user USER", Short: "Remove users and all that they did", Long: deleteLong,
		Example: "  uniflow trail delete shop.trail --user u042 --user u107\n  uniflow trail compact shop.trail",
	}, &db)
	cmd.Flags().StringArrayVar(&users, "user", nil, "remove `USER`; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		command := cmd.CommandPath()
		if len(users) == 0 {
			return app.Usagef(command, "add --user USER", "nobody to remove: --user is missing")
		}
		if err := a.checkStore(db); err != nil {
			return err
		}
		known := 0
		err := a.withTrail(cmd.Context(), db, trail.Options{}, func(ctx context.Context, s *trail.Store) (err error) {
			known, err = s.DeleteUser(ctx, users...)
			return err
		})
		switch {
		case err != nil:
			return err
		case known == 0:
			a.Talk("removed nobody: no events of %s\n", users[0]+map[bool]string{true: " and the others"}[len(users) > 1])
		default:
			a.Talk("removed %s; trail compact takes them from the disk\n", show.Count(int64(known), "user"))
			if unknown := len(users) - known; unknown > 0 {
				a.Talk("of %d of those named there were no events\n", unknown)
			}
		}
		return nil
	}
	return cmd
}

const dropLong = `Drop removes the events before a time, for ever: nothing brings them back but a backup
in another store. They are gone from all answers at once, and from the disk with the next
compaction. From then on the store keeps nothing older than that time: older events that
are imported or appended later are left out.

A time in the future would empty the store and keep it empty until then: that is done
with --force alone.`

func dropCommand(a commands) *cobra.Command {
	var db, before string
	var force bool
	cmd := storeCommand(&cobra.Command{
		Use: "drop FOLDER --before TIME", Short: "Remove the events before a time, for ever", Long: dropLong,
		Example: "  uniflow trail drop shop.trail --before 2026-01-12",
	}, &db)
	cmd.Flags().StringVar(&before, "before", "", "remove events before `TIME`, a day or RFC 3339, and keep no older ones from now on")
	cmd.Flags().BoolVar(&force, "force", false, "do it even if the time is in the future")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		command := cmd.CommandPath()
		if before == "" {
			return app.Usagef(command, "add --before 2026-01-12", "nothing to remove: --before is missing")
		}
		at, err := time.Parse(time.RFC3339, before)
		if err != nil {
			if at, err = time.Parse(time.DateOnly, before); err != nil {
				return app.Usagef(command, "write 2026-01-12, or 2026-01-12T08:00:00Z", "--before: want a day or a time of RFC 3339, got %q", before)
			}
		}
		if at.After(time.Now()) && !force {
			return app.Usagef(command, "look at the year; --force does it all the same", "--before %s is in the future: all events would be removed for ever, and none kept until then", before)
		}
		if err := a.checkStore(db); err != nil {
			return err
		}
		var had, has trail.Info
		err = a.withTrail(cmd.Context(), db, trail.Options{}, func(ctx context.Context, s *trail.Store) error {
			had = s.Info()
			err := s.DropBefore(ctx, at, trail.DropOptions{Future: force})
			has = s.Info()
			return err
		})
		switch {
		case err != nil:
		case has.Horizon == had.Horizon:
			a.Talk("nothing removed: what was before %s was removed earlier, and cannot be brought back\n", momentText(has.Horizon))
		default:
			a.Talk("removed the events before %s for ever; from now on, older ones are left out when they come\n", momentText(has.Horizon))
		}
		return err
	}
	return cmd
}
