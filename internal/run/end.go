package run

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// end decides how the process has ended, and calls what was registered for its end. All
// packets have been answered, so no other goroutine touches the process.
func (p *process) end() node.Response {
	resp := p.resp
	switch {
	case resp.IsError():
		p.failure = resp.Payload.AsError()
	case p.judge != nil:
		if err, panicked := p.judged(resp); panicked {
			resp = node.Response{Payload: value.Error(err)}
			p.failure = err
		} else {
			p.failure = err
		}
	}
	if len(p.mu.ends) == 0 {
		return resp
	}
	if failed := p.settle(); failed != nil {
		resp = node.Response{Payload: value.Error(failed)}
	}
	return resp
}

// judged asks the trigger about an answer.
func (p *process) judged(resp node.Response) (failure error, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			failure, panicked = p.panicked(p.gen.prog.Vertices[p.startedAt].Ref, v), true
		}
	}()
	return p.judge(resp), false
}

// settle calls the participants phase by phase, and then what releases something. It
// returns the error of the participant because of which the process has failed, or nil.
func (p *process) settle() (failed error) {
	var kept []node.Phase
	for first := 0; first < len(p.mu.ends); {
		last := len(p.mu.ends)
		for phase := node.PhaseDatabase; phase <= node.PhaseSend; phase++ {
			for i := last - 1; i >= first; i-- {
				if e := p.mu.ends[i]; e.participant == nil || e.phase != phase {
					continue
				}
				done, err := p.runParticipant(p.mu.ends[i].participant)
				switch {
				case err != nil && p.failure != nil:
					p.gen.log.Error("what a failed process has done was not undone", "process", p.ID(), "phase", phase.String(), "error", err)
				case err != nil:
					if len(kept) > 0 {
						err = p.partial(kept, err)
					}
					failed, p.failure = err, err
				case done:
					kept = append(kept, phase)
				}
			}
		}
		for i := last - 1; i >= first; i-- {
			if release := p.mu.ends[i].release; release != nil {
				p.runRelease(release)
			}
		}
		first = last
	}
	return failed
}

// partial says that the process was committed in part, to its client and in the log.
func (p *process) partial(kept []node.Phase, err error) error {
	done := count(kept)
	e := *node.Describe(err)
	e.Err = fmt.Errorf("committed in part (%s), and then: %w", done, err)
	e.Code = node.CodePartial
	if e.Status == 0 {
		e.Status = http.StatusServiceUnavailable
	}
	p.gen.log.Error("a process was committed in part", "code", node.CodePartial, "process", p.ID(), "committed", done, "error", err)
	return &e
}

// count lists what was committed, such as "2 databases, 1 session".
func count(kept []node.Phase) string {
	var counts [node.PhaseSend + 1]int
	for _, phase := range kept {
		counts[phase]++
	}
	var words []string
	for phase, n := range counts {
		word := node.Phase(phase).String()
		if n > 1 {
			word += "s"
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(words, ", ")
}

func (p *process) runParticipant(f node.Participant) (kept bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			kept, err = false, p.panicked(node.Ref{}, v)
		}
	}()
	return f((*lazyContext)(p).made(), p.failure)
}

func (p *process) runRelease(f func()) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked(node.Ref{}, v)
		}
	}()
	f()
}
