package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPIPath is where the server describes the simple API.
const openAPIPath = "/openapi.json"

// openAPI is the description. TestOpenAPI holds it to the handlers.
//
//go:embed openapi.json
var openAPI json.RawMessage

func describeAPI(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, openAPI) }
