package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// Verify reads every byte of a store and reports all damage. It changes nothing, and
// can run while the store is open, also for writing; files that a writer deletes
// meanwhile are left out. It returns ErrNoStore for a folder that is missing or does
// not hold a store. progress may be nil.
func Verify(ctx context.Context, dir string, progress func(VerifyProgress)) (Report, error) {
	opt, err := Options{ReadOnly: true}.withDefaults()
	if err != nil {
		return Report{}, err
	}
	return verify(ctx, newFolder(dir, opt), progress)
}

func verify(ctx context.Context, files *folder, progress func(VerifyProgress)) (Report, error) {
	v := &verifier{files: files, ctx: ctx, progress: progress}
	if progress == nil {
		v.progress = func(VerifyProgress) {}
	}
	err := errChanged
	for range maxTries {
		v.report = Report{}
		if err = v.verifyOnce(); !errors.Is(err, errChanged) {
			break
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify store %s: %w", files.dir, err)
	}
	return v.report, nil
}

// A verifier is the work of Verify.
type verifier struct {
	files    *folder
	ctx      context.Context
	progress func(VerifyProgress)
	report   Report
	man      *manifest
	done     int64
	total    int64
}

func (v *verifier) damage(d Damage) { v.report.Damages = append(v.report.Damages, d) }

// within returns a path as it stands in the folder of the store.
func (v *verifier) within(path string) string {
	if rel, err := filepath.Rel(v.files.dir, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

func (v *verifier) verifyOnce() error {
	found := v.files.readManifests()
	if found.none() {
		names, err := v.files.names(segmentDir)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, isSegment) {
			return fmt.Errorf("%w there: it has no manifest", ErrNoStore)
		}
	}
	for i, err := range found.errs {
		switch {
		case errors.Is(err, fs.ErrPermission):
			v.report.Denied = append(v.report.Denied, manifestNames[i])
		case err != nil && found.best == nil:
			v.damage(Damage{File: manifestNames[i], Reason: err.Error(), Hint: rebuildHint(v.files.dir)})
		case err != nil:
			v.damage(Damage{File: manifestNames[i], Reason: err.Error(), Hint: "the next program that writes to the store restores it from the other copy"})
		}
	}
	if a, b := found.copies[0], found.copies[1]; a != nil && b != nil && a.Generation == b.Generation && !found.same() {
		v.damage(Damage{File: manifestNames[1], Reason: "it differs from the other copy of the same generation"})
	}
	v.man = found.best
	if v.man == nil {
		return nil // without a manifest it is unknown what should be there
	}
	v.total, v.done = 0, 0
	for _, e := range v.man.Segments {
		v.total += e.Bytes
	}
	for _, e := range v.man.Segments {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := v.segment(e); err != nil {
			return err
		}
		v.done += e.Bytes
	}
	for _, c := range v.man.Cohorts {
		path := v.files.path(cohortDir, c.File)
		hashes, err := readCohort(v.files.fs, path)
		if err == nil && int64(len(hashes)) != c.Users {
			err = fmt.Errorf("it has %d users, and the manifest says %d", len(hashes), c.Users)
		}
		if err != nil {
			if err := v.unlessChanged(path, err, ""); err != nil {
				return err
			}
		}
	}
	err := v.log()
	if denied, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrPermission) {
		v.report.Denied = append(v.report.Denied, v.within(denied.Path))
	} else if err != nil {
		return err
	}
	if v.report.Rows == 0 && v.report.Records == 0 {
		if v.report.Unfinished, err = v.files.importUnfinished(); err != nil {
			return err
		}
	}
	v.progress(VerifyProgress{Done: v.done, Total: v.total})
	return nil
}

// unlessChanged adds a damage, or returns errChanged if a writer has changed the store.
func (v *verifier) unlessChanged(path string, err error, hint string) error {
	if now := v.files.readManifests().best; now != nil && now.Generation != v.man.Generation {
		return errChanged
	}
	v.add(path, err, hint)
	return nil
}

func (v *verifier) segment(e entry) error {
	path := v.files.segmentPath(e.File)
	v.progress(VerifyProgress{File: v.within(path), Done: v.done, Total: v.total})
	hint := discardHint(v.files.dir, e.File)
	seg, err := v.files.openSegment(path)
	if err != nil {
		return v.unlessChanged(path, err, hint)
	}
	v.report.Segments++
	v.report.Rows += int64(seg.Rows())
	err = guarded(func() error {
		for _, d := range seg.Verify() {
			v.add(path, &d, hint)
		}
		return nil
	})
	if err != nil {
		v.add(path, err, hint)
	}
	if e.of(seg) != e {
		v.damage(Damage{File: v.within(path), Section: "footer", Reason: "it is not the segment that the manifest describes"})
	}
	if w := v.man.Bucket; seg.Rows() > 0 && (bucketOf(seg.MinTime(), w) != e.Bucket || bucketOf(seg.MaxTime(), w) != e.Bucket) {
		v.damage(Damage{File: v.within(path), Section: "times", Reason: "events outside of its bucket"})
	}
	if n := seg.Users(); err == nil && n > 0 && !(e.Hashes.Has(seg.Hashes()[0]) && e.Hashes.Has(seg.Hashes()[n-1])) {
		v.damage(Damage{File: v.within(path), Section: "user index", Reason: "users outside of its part"})
	}
	return seg.Close()
}

func (v *verifier) add(path string, err error, hint string) {
	if errors.Is(err, fs.ErrPermission) {
		v.report.Denied = append(v.report.Denied, v.within(path))
		return
	}
	d := Damage{File: v.within(path), Reason: err.Error(), Hint: hint}
	if e, ok := errors.AsType[*segment.DamageError](err); ok {
		d.Section, d.Offset, d.Length, d.Reason = e.Section, e.Offset, e.Length, e.Reason
	} else if errors.Is(err, fs.ErrNotExist) {
		d.Reason = "it is missing"
	}
	v.damage(d)
}

func (v *verifier) log() error {
	missing, err := v.losses()
	if err != nil {
		return err
	}
	acked := (&ackNote{files: v.files}).read() // before the log is read
	dir := v.files.path(walDir)
	var records []record
	_, damages, err := spool.Scan(v.files.fs, dir, spool.Cursor{}, func(r spool.Record) error {
		rec, err := decodeRecord(r.Payload)
		if err == nil {
			err = verifyRecord(rec)
		}
		if err != nil {
			v.damage(Damage{File: walDir, Section: fmt.Sprintf("commit %d", r.Seq), Reason: err.Error()})
			return nil
		}
		rec.chunks, rec.voided = nil, slices.Clone(rec.voided)
		records = append(records, rec)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	for _, d := range damages {
		v.damage(Damage{File: v.within(d.Path), Offset: d.Offset, Length: d.Length, Reason: d.Reason})
	}
	for _, wanted := range wantedRecords(records, v.man.Flushed) {
		if wanted {
			v.report.Records++
		}
	}
	if missing || len(damages) > 0 {
		return nil
	}
	flushed := v.man.Flushed
	if now := v.files.readManifests().best; now != nil {
		flushed = now.Flushed // by a writer, perhaps, before the log was read
	}
	if end := endMissing(acked, flushed, lastCommitOf(records)); end != "" {
		v.damage(Damage{File: walDir, Reason: end, Hint: appendAgain})
	}
	return nil
}

// appendAgain is the hint for lost events.
const appendAgain = "append the last events again"

// losses reports what the log has lost at some time before, and whether all of it is
// missing.
func (v *verifier) losses() (missing bool, err error) {
	missing, err = v.files.logMissing(v.man)
	if err != nil {
		return false, err
	}
	if missing {
		v.damage(Damage{File: walDir, Reason: reasonLogMissing, Hint: appendAgain})
	}
	names, err := v.files.quarantined()
	for _, name := range names {
		path := v.files.path(walDir, quarantineDir, name)
		reason := "damaged records, which the log has lost with their events"
		if strings.HasSuffix(name, ".txt") {
			note, err := vfs.ReadFile(v.files.fs, path)
			if err != nil {
				return missing, err
			}
			reason = "events were lost: " + strings.TrimSpace(string(note))
		}
		v.damage(Damage{File: v.within(path), Reason: reason, Hint: appendAgain + "; then remove the folder " + v.files.path(walDir, quarantineDir) + ", or every verify reports it"})
	}
	return missing, err
}

func verifyRecord(rec record) error {
	for _, chunk := range rec.chunks {
		c, err := openChunk(chunk)
		if err != nil {
			return err
		}
		var r row
		for c.next(&r) {
		}
		if err := c.err(); err != nil {
			return err
		}
	}
	return nil
}
