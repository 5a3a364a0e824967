package node

import (
	"errors"
	"fmt"
	"sync"
)

// Programs decide whether nodes may start programs of the system. Make them with [AllowPrograms] or
// [RefusePrograms]; nil Programs refuse. Any goroutine may call the methods.
type Programs struct {
	refusal error

	// Confine is the command line, with a name first, with which the executable of this process
	// becomes another program whose rights are limited; nil if it cannot.
	Confine []string

	mu struct {
		sync.Mutex
		known  map[string]bool // what has been permitted
		frozen bool
	}
}

// ErrProgramsRefused is the refusal of nil Programs.
var ErrProgramsRefused = errors.New("this program may not start other programs: start uniflow with --allow-exec")

var errProgramsFrozen = errors.New("a change that came over the admin server may not start a program that was not started before: change the file where it is, and reload")

// AllowPrograms returns Programs that permit all. See [Programs.Confine] for the command line.
func AllowPrograms(confine ...string) *Programs { return &Programs{Confine: confine} }

// RefusePrograms returns Programs that refuse all, with an error that says why, and what helps.
func RefusePrograms(refusal error) *Programs { return &Programs{refusal: refusal} }

// Permit returns nil if what key stands for may be started: a command with all that it is
// started with. A node asks when it opens.
func (p *Programs) Permit(key string) error {
	switch {
	case p == nil:
		return ErrProgramsRefused
	case p.refusal != nil:
		return p.refusal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.known[key] {
		return nil
	}
	if p.mu.frozen {
		return errProgramsFrozen
	}
	if p.mu.known == nil {
		p.mu.known = make(map[string]bool)
	}
	p.mu.known[key] = true
	return nil
}

// PermitProgram returns nil if the node may start what key stands for, as [Programs.Permit] has it,
// else the error of the node. All kinds that start programs ask here when they open.
func (init *Init) PermitProgram(key string) error {
	if err := init.Programs.Permit(key); err != nil {
		return &Error{Err: fmt.Errorf("kind %s starts a program: %w", init.Node.Kind, err), Code: "exec_refused", Status: 403, Permanent: true}
	}
	return nil
}

// Freeze refuses from now on what was never permitted, until thaw is called: while documents
// are applied whose author may not choose programs.
func (p *Programs) Freeze() (thaw func()) {
	if p == nil {
		return func() {}
	}
	set := func(frozen bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.frozen = frozen
	}
	set(true)
	return func() { set(false) }
}
