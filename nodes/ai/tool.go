package ai

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/value"
)

// A tool is what the model may call.
type tool struct {
	name, description string
	parameters        value.Value // the schema of input
	input             *jsonschema.Schema
	timeout           time.Duration
	port              int
	server            *server // which has it, in place of a port; mostly nil
	remote            string  // what the server calls it
}

var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

func (n *llm) setTools(init *node.Init) error {
	c, links := init.Config, init.OutLinks
	var found diag.List
	seen := make(map[string]bool)
	for k, t := range c.List("tools") {
		name := t.String("name")
		switch {
		case !toolName().MatchString(name):
			found.Add(t.Errorf("name", diag.CodeBadValue, "not a name that models can call").WithHint("use letters, digits, _ and -, at most 64 of them"))
		case seen[name]:
			found.Add(t.Errorf("name", diag.CodeBadValue, "two tools have this name").WithHint("give each a name of its own"))
		}
		seen[name] = true
		if port := toolPort + k; port >= len(links) || links[port] == 0 {
			found.Add(t.Errorf("", diag.CodeUnlinked, "the tool leads nowhere").WithHint(`link the port: "tool[%d]": NODE`, k))
		}
		doc := t.Value("input")
		if doc.IsNull() {
			doc = value.Map()
		}
		parameters, input, err := compileInput(doc, jsonschema.Options{Hidden: t.Hidden("input")})
		if err != nil {
			found.Append(jsonschema.At(t, "input", err, "write a JSON Schema of an object, such as {properties: {id: {type: integer}}, required: [id]}"))
			continue
		}
		jsonschema.Warn(init.Warn, t, "input", input.Doubts())
		n.tools.tools = append(n.tools.tools, tool{
			name: name, description: t.String("description"), parameters: parameters, input: input,
			timeout: t.Duration("timeout"), port: toolPort + k,
		})
	}
	if err := found.Err(); err != nil {
		return err
	}
	return n.tools.seal()
}

// compileInput compiles the schema of arguments, and returns it as models get it. Its type need
// not be written.
func compileInput(doc value.Value, o jsonschema.Options) (value.Value, *jsonschema.Schema, error) {
	if doc.Kind() != value.KindMap {
		return doc, nil, fmt.Errorf("want a map, got %s", doc.Kind())
	}
	if get(doc, "type").IsNull() {
		doc = doc.With("type", value.String("object"))
	}
	if text(doc, "type") != "object" {
		return doc, nil, errors.New("its type is not object")
	}
	if get(doc, "properties").IsNull() { // some servers need it
		doc = doc.With("properties", value.Map())
	}
	s, err := jsonschema.Compile(doc, o)
	return doc, s, err
}

func (n *llm) setSchema(init *node.Init) error {
	c := init.Config
	if !c.Has("schema") {
		return nil
	}
	doc := c.Value("schema")
	err := fmt.Errorf("want a map, got %s", doc.Kind())
	if doc.Kind() == value.KindMap {
		n.schema, err = jsonschema.Compile(doc, jsonschema.Options{Hidden: c.Hidden("schema")})
	}
	if err != nil {
		return jsonschema.At(c, "schema", err, "write a JSON Schema such as {type: object, properties: {total: {type: number}}, required: [total]}")
	}
	jsonschema.Warn(init.Warn, c, "schema", n.schema.Doubts())
	text, err := doc.MarshalJSON()
	if err != nil {
		return err
	}
	n.schemaText = string(text)
	n.format = object("type", "json_schema", "json_schema", object("name", "answer", "strict", strict(doc), "schema", doc))
	return nil
}

// maxProblems is how many problems of one value are sent to a model.
const maxProblems = 10

// maxCalls is how many tools a model may call in one turn; further calls are refused.
// maxParallel of them run concurrently.
const (
	maxCalls    = 64
	maxParallel = 16
)

// callTools answers the calls of a turn, and asks again.
func (r *run) callTools(a *reply) node.Result {
	r.messages = append(r.messages, a.message())
	results := make([]string, len(a.calls))
	var children []node.Result
	var of []int // the call of each child
	for i := range a.calls {
		child, problem := r.call(&a.calls[i], i)
		if problem != "" {
			results[i] = problem
			continue
		}
		children, of = append(children, child), append(of, i)
	}
	return node.Spawn(children, maxParallel, func(_ node.Process, resps []node.Response) node.Result {
		for i, resp := range resps {
			results[of[i]] = r.n.result(resp)
		}
		for i, c := range a.calls {
			r.messages = append(r.messages, object("role", "tool", "tool_call_id", c.id, "content", results[i]))
		}
		return r.ask()
	})
}

// call returns what runs a tool, or what is wrong with the call.
func (r *run) call(c *call, i int) (node.Result, string) {
	t := r.tools.find(c.name)
	switch {
	case i >= maxCalls:
		return node.Result{}, fmt.Sprintf("error: not run, as there are more than %d calls", maxCalls)
	case t == nil:
		names := make([]string, len(r.tools.tools))
		for i := range names {
			names[i] = r.tools.tools[i].name
		}
		r.n.counts.do(func(t *tally) { t.calls[callUnknown]++ })
		return node.Result{}, fmt.Sprintf("error: there is no tool of this name; there is %s", strings.Join(names, ", "))
	}
	args := value.Map()
	if strings.TrimSpace(c.arguments) != "" {
		var err error
		if args, err = value.ParseJSON([]byte(c.arguments)); err != nil {
			r.n.counts.do(func(t *tally) { t.calls[callMalformed]++ })
			return node.Result{}, fmt.Sprintf("error: the arguments are not JSON: %v", err)
		}
	}
	if problems := t.input.Explain(args, maxProblems, "\n"); problems != "" {
		r.n.counts.do(func(t *tally) { t.calls[callMalformed]++ })
		return node.Result{}, "error: the arguments do not fit the schema:\n" + problems
	}
	if t.server != nil {
		return t.callServer(args), ""
	}
	return node.Within(t.timeout, node.Send(t.port, args)), ""
}

// result returns the text that the model gets for a response.
func (n *llm) result(resp node.Response) string {
	var result string
	switch {
	case resp.IsError():
		n.counts.do(func(t *tally) { t.calls[callFailed]++ })
		err := resp.Payload.AsError()
		result = "error: " + node.Message(err)
		if errors.Is(err, node.ErrTimeLimit) {
			result = "error: the tool has not answered in time"
		}
	case resp.None:
		n.counts.do(func(t *tally) { t.calls[callDone]++ })
		result = "done"
	default:
		n.counts.do(func(t *tally) { t.calls[callDone]++ })
		var err error
		if result, err = resultText(resp.Payload); err != nil {
			result = "error: the result cannot be shown: " + err.Error()
		}
	}
	if len(result) > n.resultBytes {
		result = strings.ToValidUTF8(result[:n.resultBytes], "") + fmt.Sprintf("\n(cut off: %d bytes in all)", len(result))
	}
	return strings.ToValidUTF8(result, "\ufffd")
}

func resultText(v value.Value) (string, error) {
	if s, ok := v.AsString(); ok {
		return s, nil
	}
	data, err := v.AppendJSON(nil)
	return string(data), err
}
