package data

import (
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// PostgresConfig returns how to connect to the database of PostgreSQL that the field source
// names, with the parameters that [PostgresText] needs. The error is placed at the field, and
// does not quote it.
func PostgresConfig(c schema.Config) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(c.String("source"))
	if err != nil || c.String("source") == "" {
		return nil, c.Errorf("source", diag.CodeBadValue, "is not one of postgres").WithHint("write one such as %s", exampleSources["postgres"])
	}
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "uniflow"
	}
	for name, is := range map[string]string{"datestyle": "ISO", "timezone": "UTC", "bytea_output": "hex", "extra_float_digits": "1"} {
		config.RuntimeParams[name] = is
	}
	return config, nil
}

// PostgresText makes a value of the text form of a column that is not NULL: the same one that
// `sql` makes of its binary form. elem is what [PostgresElem] says. The data are not kept.
func PostgresText(data []byte, oid, elem uint32) value.Value {
	switch oid {
	case typeText, typeVarchar, typeBPChar, typeName, typeNumeric, typeDate, typeUUID:
		return value.String(string(data))
	case typeJSON, typeJSONB:
		return parseJSON(data)
	}
	if elem != 0 {
		if v, rest, ok := parseArray(string(data), elem); ok && rest == "" {
			return v
		}
	}
	v := elementValue(string(data), oid)
	if t, ok := v.AsTime(); ok && v.Kind() == value.KindTime {
		return value.Time(t.UTC())
	}
	return v
}

// PostgresElem returns the type of the elements of an array type, 0 for any other type. It
// does not know the types that a database has defined.
func PostgresElem(oid uint32) (elem uint32, known bool) {
	elem, ok := arrays[oid]
	return elem, ok || oid < firstOwnType
}
