package data

import (
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestMySQLFull has the errors of a server whose disk is full: they go away when there is room.
func TestMySQLFull(t *testing.T) {
	for _, number := range []uint16{1021, 1114} {
		e := new(mysqlDriver).describe(&mysql.MySQLError{Number: number, Message: "the table 't' is full"})
		if e.Status != 503 || e.Code != "full" || !e.Outage {
			t.Errorf("%d: got %v, status %d, outage %t", number, e, e.Status, e.Outage)
		}
	}
}
