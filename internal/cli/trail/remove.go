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

const discardLong = `Discard removes a segment that is damaged or missing from the store. Its events are lost,
but queries, exports and compactions no longer fail. The file moves to the folder lost in
the store, which nothing reads. Discard refuses a sound segment.

Trail verify names the segment. If you have a backup of the file, copy it back instead.`

func discardCommand(a commands) *cobra.Command {
	var db, segment string
	cmd := storeCommand(&cobra.Command{
		Use: "discard FOLDER --segment FILE", Short: "Remove a damaged segment", Long: discardLong,
		Example: "  uniflow trail discard shop.trail --segment 000000000004-1.seg",
	}, &db)
	cmd.Flags().StringVar(&segment, "segment", "", "remove `FILE`, as trail verify names it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if segment == "" {
			return app.Usagef(cmd.CommandPath(), "add --segment FILE, as trail verify names it", "--segment is missing")
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
			a.Talk("removed %s with %s; what is left of it is in %s\n", filepath.Base(segment), show.Count(rows, "event"), filepath.Join(db, "lost"))
		}
		return err
	}
	return cmd
}

const deleteLong = `Delete removes all events of users: from answers immediately, from the disk with the next
compaction. Later events of these users are stored again.`

func deleteCommand(a commands) *cobra.Command {
	var db string
	var users []string
	cmd := storeCommand(&cobra.Command{
		Use: "delete FOLDER --user USER", Short: "Remove users with all their events", Long: deleteLong,
		Example: "  uniflow trail delete shop.trail --user u042 --user u107\n  uniflow trail compact shop.trail",
	}, &db)
	cmd.Flags().StringArrayVar(&users, "user", nil, "remove `USER`; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(users) == 0 {
			return app.Usagef(cmd.CommandPath(), "add --user USER", "--user is missing")
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
			a.Talk("nothing removed: there are no events of %s\n", users[0]+map[bool]string{true: " and the others"}[len(users) > 1])
		default:
			a.Talk("removed %s; trail compact removes them from the disk\n", show.Count(int64(known), "user"))
			if unknown := len(users) - known; unknown > 0 {
				a.Talk("%s had no events\n", show.Count(int64(unknown), "other"))
			}
		}
		return nil
	}
	return cmd
}

const dropLong = `Drop removes the events before a time: from answers immediately, from the disk with the
next compaction. This cannot be undone. From then on the store accepts no older events:
imports and the loader leave them out.

A time in the future empties the store and keeps it empty until then, so it needs --force.`

func dropCommand(a commands) *cobra.Command {
	var db, before string
	var force bool
	cmd := storeCommand(&cobra.Command{
		Use: "drop FOLDER --before TIME", Short: "Remove the events before a time permanently", Long: dropLong,
		Example: "  uniflow trail drop shop.trail --before 2026-01-12",
	}, &db)
	cmd.Flags().StringVar(&before, "before", "", "remove events before `TIME`, a day or RFC 3339, and accept no older ones from now on")
	cmd.Flags().BoolVar(&force, "force", false, "allow a time in the future")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		command := cmd.CommandPath()
		if before == "" {
			return app.Usagef(command, "add --before 2026-01-12", "--before is missing")
		}
		at, err := time.Parse(time.RFC3339, before)
		if err != nil {
			if at, err = time.Parse(time.DateOnly, before); err != nil {
				return app.Usagef(command, "write 2026-01-12, or 2026-01-12T08:00:00Z", "--before must be a day or a time of RFC 3339, got %q", before)
			}
		}
		if at.After(time.Now()) && !force {
			return app.Usagef(command, "check the year, or add --force", "--before %s is in the future: all events would be removed permanently, and none accepted until then", before)
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
			a.Talk("nothing removed: the events before %s were removed earlier\n", momentText(has.Horizon))
		default:
			a.Talk("removed the events before %s permanently; older events are left out from now on\n", momentText(has.Horizon))
		}
		return err
	}
	return cmd
}
