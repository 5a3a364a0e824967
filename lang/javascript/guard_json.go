package javascript

import (
	"reflect"
	"strconv"

	"github.com/dop251/goja"
)

// parseJSON limits the depth, because the parser recurses, and the memory of the values,
// which is much more than the text: some 250 bytes for an empty list.
func parseJSON(e *engine, name string, c *call) {
	s := e.textArgument(c, 0)
	if s.Length() <= maxDepth {
		return
	}
	depth, objects, values := nesting(s.String())
	if depth > maxDepth {
		e.refuse("JSON nests deeper than %d levels", maxDepth)
	}
	if int64(objects)*256+int64(values)*48+int64(s.Length()) > maxHeapOfCall {
		e.tooLarge("JSON." + name)
	}
}

// nesting returns the depth of the brackets in a JSON text, the number of pairs, and the
// approximate number of values.
func nesting(text string) (deepest, objects, values int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			objects++
			if depth++; depth > deepest {
				deepest = depth
			}
		case c == ']' || c == '}':
			depth--
		case c == ',':
			values++
		}
	}
	return deepest, objects, values
}

// stringify counts the levels, values and characters of the result with a replacer.
func stringify(e *engine, _ string, inner native) native {
	parse, _ := goja.AssertFunction(e.vm.Get("JSON").ToObject(e.vm).Get("parse"))
	return func(c call) goja.Value {
		_, object := c.Argument(0).(*goja.Object)
		if _, replaced := c.Argument(1).(*goja.Object); !object && !replaced {
			return inner(c)
		}
		var open []*goja.Object
		size := 0
		replacer, _ := goja.AssertFunction(c.Argument(1))
		indent := int(min(10, max(0, length(c.Argument(2)))))
		if t := c.Argument(2).ExportType(); t != nil && (t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64) {
			indent = int(min(10, max(0, c.Argument(2).ToInteger())))
		}
		var names map[string]bool // allowed by a replacer list, for a first pass
		count := func(key, v goja.Value, holder *goja.Object) {
			e.poll()
			for len(open) > 0 && open[len(open)-1] != holder {
				open = open[:len(open)-1]
			}
			size += 2 + len(open)*indent
			if s, ok := key.(goja.String); ok {
				size += s.Length() + 1
			}
			switch v := v.(type) {
			case goja.String:
				size += v.Length()
			case *goja.Object:
				if len(open) >= maxDepth {
					e.refuse("what JSON.stringify is given nests deeper than %d levels", maxDepth)
				}
				if v.ClassName() == "Array" && length(v) > maxItems {
					e.tooLarge("JSON.stringify")
				}
				open = append(open, v)
			}
			if size > maxText {
				e.tooLarge("JSON.stringify")
			}
		}
		visit := func(c call) goja.Value {
			key, v := c.Argument(0), c.Argument(1)
			holder, _ := c.This.(*goja.Object)
			if replacer != nil {
				made, err := replacer(c.This, key, v)
				if err != nil {
					rethrow(err)
				}
				v = made
			}
			if names != nil && holder != nil && len(open) > 0 && holder.ClassName() != "Array" {
				if !names[key.String()] {
					return goja.Undefined()
				}
			}
			if len(open) == 0 {
				open = append(open, holder)
			}
			count(key, v, holder)
			return v
		}
		counting := c
		if list, ok := c.Argument(1).(*goja.Object); ok && replacer == nil && proxiesArray(list) {
			list, names = e.names(list)
			setArgument(&counting, 1, e.vm.ToValue(visit))
			text, ok := inner(counting).(goja.String)
			if !ok {
				return goja.Undefined()
			}
			// The counted data is the same when it is written again, in the order of the list.
			again, err := parse(goja.Undefined(), text)
			if err != nil {
				rethrow(err)
			}
			setArgument(&c, 0, again)
			setArgument(&c, 1, list)
			return inner(c)
		}
		setArgument(&counting, 1, e.vm.ToValue(visit))
		return inner(counting)
	}
}

// names reads a replacer list, once.
func (e *engine) names(list *goja.Object) (*goja.Object, map[string]bool) {
	n := length(list)
	if n > maxKeys {
		e.tooLarge("JSON.stringify")
	}
	var keys []any
	names := make(map[string]bool)
	for i := range n {
		v := list.Get(strconv.Itoa(int(i)))
		switch o, ok := v.(*goja.Object); {
		case ok && o.ClassName() != "String" && o.ClassName() != "Number":
			continue
		case !ok && !goja.IsString(v) && !goja.IsNumber(v):
			continue
		}
		key := e.stringOf(v)
		keys, names[key.String()] = append(keys, key), true
	}
	return e.vm.NewArray(keys...), names
}
