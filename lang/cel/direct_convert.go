package cel

import (
	"fmt"
	"strconv"

	"cel.dev/cel-go/common/overloads"

	"github.com/uniflow-labs/uniflow/value"
)

// conversion returns double, int or string, and nil for other functions.
func (p *directPlanner) conversion(function string) func(f *frame, v value.Value) (value.Value, bool) {
	read := p.reader()
	switch function {
	case overloads.TypeConvertDouble:
		return func(f *frame, v value.Value) (value.Value, bool) {
			if s, ok := v.AsString(); ok {
				n, err := strconv.ParseFloat(s, 64)
				return value.Float(n), err == nil && read(f, len(s))
			}
			n, _ := v.AsFloat()
			return value.Float(n), isNumber(v.Kind())
		}
	case overloads.TypeConvertInt:
		return func(f *frame, v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindInt:
				return v, true
			case value.KindFloat:
				n, _ := v.AsFloat()
				return value.Int(int64(n)), n > -(1<<63) && n < 1<<63
			case value.KindString:
				s, _ := v.AsString()
				n, err := strconv.ParseInt(s, 10, 64)
				return value.Int(n), err == nil && read(f, len(s))
			}
			return value.Value{}, false
		}
	case overloads.TypeConvertString:
		return func(f *frame, v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindString:
				s, _ := v.AsString()
				return v, read(f, len(s))
			case value.KindInt:
				n, _ := v.AsInt()
				return value.String(strconv.FormatInt(n, 10)), read(f, 0)
			case value.KindFloat:
				n, _ := v.AsFloat()
				return value.String(fmt.Sprintf("%g", n)), read(f, 0)
			case value.KindBool:
				return value.String(strconv.FormatBool(v.Truth())), read(f, 0)
			}
			return value.Value{}, false
		}
	}
	return nil
}
