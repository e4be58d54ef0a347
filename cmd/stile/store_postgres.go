//go:build !no_postgres

package main

import (
	"github.com/stilelock/stile/cmd/stile/internal/migrate"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres"
)

func init() {
	schema := func(a *driver.Address) (string, error) {
		return postgres.Schema(a.Param("schema", ""), a.Param("prefix", ""))
	}
	migrate.Schemas["postgres"], migrate.Schemas["postgresql"] = schema, schema
}
