package mcptools

import (
	"crypto/rand"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// A question is why a tool has not done what it was called for: a person must agree first. The client asks,
// and calls the tool again with the answer.
type question struct{ text, state string }

func (*question) Error() string { return "a person is to be asked" }

// answerKey is the name of the answer to a question.
const answerKey = "consent"

func (q *question) result() *sdk.CallToolResult {
	return &sdk.CallToolResult{RequestState: q.state, InputRequests: sdk.InputRequestMap{answerKey: &sdk.ElicitParams{
		Message: q.text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}}}
}

// maxAsked is how many questions may be open. Clients leave some without an answer.
const maxAsked = 100

// consent returns nil if a person has agreed to exactly what is to be done: the question that was shown, with the same
// arguments of the call. Otherwise the error is a [*question], or says why it is not done.
func (t *Tools) consent(r *sdk.CallToolRequest, what string) error {
	if p := r.Session.InitializeParams(); p != nil && (p.Capabilities == nil || p.Capabilities.Elicitation == nil) {
		return errors.New("nothing was changed: your client cannot ask a person (elicitation), and a change needs the consent of one")
	}
	exactly := what + "\n" + string(r.Params.Arguments)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(r.Params.InputResponses) == 0 {
		if len(t.asked) >= maxAsked {
			clear(t.asked)
		}
		q := &question{what, rand.Text()}
		t.asked[q.state] = exactly
		return q
	}
	asked, ok := t.asked[r.Params.RequestState]
	delete(t.asked, r.Params.RequestState)
	answer, _ := r.Params.InputResponses[answerKey].(*sdk.ElicitResult)
	switch {
	case !ok:
		return errors.New("nothing was changed: this answers no question that was asked")
	case asked != exactly:
		return errors.New("nothing was changed: what would be done is not any more what the person was asked about; try again")
	case answer == nil || answer.Action != "accept":
		return errors.New("nothing was changed: the person said no")
	}
	return nil
}

// hintOf returns the hint of a program's refusal.
func hintOf(err error) string {
	if refused, ok := errors.AsType[*api.StatusError](err); ok {
		return refused.Answer.Hint
	}
	return ""
}
