//go:build !no_mysql

package main

import (
	"github.com/stilelock/stile/cmd/stile/internal/migrate"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/mysql"
)

func init() {
	schema := func(a *driver.Address) (string, error) { return mysql.Schema(a.Param("prefix", "")) }
	migrate.Schemas["mysql"], migrate.Schemas["mariadb"] = schema, schema
}
