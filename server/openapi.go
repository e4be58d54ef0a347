package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPIPath is the path of the simple API's description.
const openAPIPath = "/openapi.json"

// openAPI is the description. TestOpenAPI compares it with the handlers.
//
//go:embed openapi.json
var openAPI json.RawMessage

func describeAPI(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, openAPI) }
