package javascript

import (
	"strings"

	"github.com/dop251/goja"
)

func repeat(e *engine, name string, c *call) {
	s := e.textThis(c)
	if s == nil {
		return
	}
	n := c.Argument(0).ToFloat()
	setArgument(c, 0, e.vm.ToValue(n))
	if float64(s.Length())*n > maxText {
		e.tooLarge(name)
	}
}

func pad(e *engine, name string, c *call) {
	s := e.textThis(c)
	if s == nil {
		return
	}
	n := c.Argument(0).ToNumber()
	setArgument(c, 0, n)
	if n.ToFloat() > maxText {
		e.tooLarge(name)
	}
}

func concatText(e *engine, name string, c *call) {
	s := e.textThis(c)
	if s == nil {
		return
	}
	n := s.Length()
	for i := range c.Arguments {
		if n += e.textArgument(c, i).Length(); n > maxText {
			e.tooLarge(name)
		}
	}
}

func grows(factor int) inspection {
	return func(e *engine, name string, c *call) {
		if s := e.textThis(c); s != nil && s.Length()*factor > maxText {
			e.tooLarge(name)
		}
	}
}

func growsArgument(factor int) inspection {
	return func(e *engine, name string, c *call) {
		if e.textArgument(c, 0).Length()*factor > maxText {
			e.tooLarge(name)
		}
	}
}

func raw(e *engine, name string, c *call) {
	if o, ok := c.Argument(0).(*goja.Object); ok {
		raw := o.Get("raw")
		if isNothing(raw) {
			return
		}
		same := e.vm.NewObject()
		must(same.Set("raw", e.pinned(name, raw.ToObject(e.vm), maxItems)))
		setArgument(c, 0, same)
	}
}

// search limits the search for one text in another. If either is not ASCII, it may compare
// all of the one at each character of the other.
func search(e *engine, name string, c *call) {
	s := e.textThis(c)
	if s == nil {
		return
	}
	if matches(c.Argument(0), goja.SymMatch) {
		return // it is refused
	}
	e.searchable(name, s, e.textArgument(c, 0))
}

// matches reports whether v is a RegExp, or an object with its methods.
func matches(v goja.Value, method *goja.Symbol) bool {
	o, ok := v.(*goja.Object)
	return ok && !isNothing(o.GetSymbol(method))
}

func (e *engine) searchable(name string, s, sought goja.String) {
	if int64(s.Length())*int64(sought.Length()) > maxSteps && !ascii(s) {
		e.refuse("%s would take longer than the limit allows: %d characters sought in %d", name, sought.Length(), s.Length())
	}
}

func ascii(s goja.String) bool {
	text := s.String()
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

func splitText(e *engine, name string, c *call) {
	if matches(c.Argument(0), goja.SymSplit) {
		return
	}
	s := e.textThis(c)
	if s == nil || goja.IsUndefined(c.Argument(0)) {
		return
	}
	by := e.textArgument(c, 0)
	e.searchable(name, s, by)
	if s.Length() > maxItems && s.Length()/max(1, by.Length()) > maxItems && strings.Count(s.String(), by.String()) > maxItems {
		e.tooLarge(name)
	}
}

// replaceText is for replace and replaceAll of a text. With a RegExp, the RegExp does it.
func replaceText(e *engine, name string, c *call) {
	if matches(c.Argument(0), goja.SymReplace) {
		return
	}
	s := e.textThis(c)
	if s == nil {
		return
	}
	sought := e.textArgument(c, 0)
	e.searchable(name, s, sought)
	if name == "replaceAll" && s.Length()/max(1, sought.Length()) > maxMatches && strings.Count(s.String(), sought.String()) > maxMatches {
		e.refuse("the text has more than %d matches, which are the most", maxMatches)
	}
	e.replacement(name, c, s, false, func(int) int {
		if name == "replace" {
			return 1
		}
		return strings.Count(s.String(), sought.String())
	})
}

// replacement limits the result of c for s. Argument 1 of c is the replacement, and times
// the number of matches, or a number that is large enough. A group in a look-around may
// capture text outside of the match.
func (e *engine) replacement(name string, c *call, s goja.String, around bool, times func(enough int) int) {
	if f, ok := goja.AssertFunction(c.Argument(1)); ok {
		made := s.Length()
		setArgument(c, 1, e.vm.ToValue(func(c call) goja.Value {
			v, err := f(goja.Undefined(), c.Arguments...)
			if err != nil {
				rethrow(err)
			}
			text := e.stringOf(v)
			if made += text.Length(); made > maxText {
				e.tooLarge(name)
			}
			return text
		}))
		return
	}
	by := e.textArgument(c, 1)
	n, size := float64(s.Length()), float64(by.Length())
	var whole, part float64 // references that may be all of s for each match, and references to parts of the match
	text := by.String()
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '$' {
			continue
		}
		i++
		switch ch := text[i]; {
		case ch == '`' || ch == '\'' || around && (ch == '<' || ch >= '0' && ch <= '9'):
			whole++
		case ch == '&' || ch == '<' || ch >= '0' && ch <= '9':
			part++
		}
	}
	all, each := n+part*n, size+whole*n // for all matches together, which do not overlap; and for each match
	if all+(n+1)*each <= maxText {
		return
	}
	enough := 1 + int(max(0, maxText-all)/max(1, each))
	if k := times(enough); k >= enough || k > 0 && all+float64(k)*each > maxText {
		e.tooLarge(name)
	}
}

// rethrow continues with the error of a function of the code.
func rethrow(err error) {
	panic(err) // a *goja.Exception keeps its stack, others cannot be caught
}
