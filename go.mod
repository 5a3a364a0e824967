module github.com/uniflow-labs/uniflow

go 1.26
