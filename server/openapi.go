package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/stilelock/stile/internal/api"
)

// openAPIPath is the path of the description of all requests of programs.
const openAPIPath = "/openapi.json"

// written is the part of the description that nothing is made from.
//
//go:embed openapi.json
var written []byte

// openAPI is the description: what is written, and the contractCalls with the schemas of their types. TestOpenAPI compares it
// with the handlers.
var openAPI = sync.OnceValue(func() object {
	d := object{}
	if err := json.Unmarshal(written, &d); err != nil {
		panic(err) // a mistake in the file, which every test of the description finds
	}
	paths, all := d.at("paths"), schemas(d.at("components").at("schemas"))
	for _, c := range contractCalls {
		paths[c.path] = object{strings.ToLower(c.method): all.operation(&c)}
	}
	return d
})

func describeAPI(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, openAPI()) }

// An object is one of JSON.
type object map[string]any

func (o object) at(key string) object { return o[key].(map[string]any) }

// parts say how a body of a media type is made of objects.
var parts = map[string]string{
	api.JSON:   "One object.",
	api.Lines:  "An object in each line.",
	api.Events: "An object as the data of each event. The last event is end; its data is an Error.",
}

// schemas are the schemas of types, by their names.
type schemas object

func (s schemas) operation(c *contractCall) object {
	parameters := []object{{"$ref": "#/components/parameters/Store"}}
	if c.parameter != "" {
		parameters = append(parameters, object{"name": c.parameter, "in": "query", "required": true, "schema": object{"type": "string"}})
	}
	o := object{
		"tags": []string{"contract"}, "summary": c.summary, "parameters": parameters,
		"responses": object{"200": s.body(c.gives), "default": object{"$ref": "#/components/responses/Error"}},
	}
	if c.takes.kind != "" {
		o["requestBody"] = s.body(c.takes)
	}
	return o
}

func (s schemas) body(c content) object {
	return object{"description": parts[c.kind], "content": object{c.kind: object{"schema": s.of(c.of)}}}
}

// of returns the schema of a type. The schema of a struct is added under its name, and referred to.
func (s schemas) of(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		if s[t.Name()] == nil {
			s.add(t)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	case reflect.Slice:
		switch {
		case t == reflect.TypeFor[json.RawMessage]():
			return object{"type": "object"}
		case t.Elem().Kind() == reflect.Uint8:
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	}
	panic("no schema for " + t.String())
}

// add adds the schema of a struct, which must not contain itself.
func (s schemas) add(t reflect.Type) {
	properties, required := object{}, []string{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if properties[name] = s.of(f.Type); options == "string" {
			properties[name] = object{"type": "string", "pattern": "^[0-9]+$"}
		}
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	s[t.Name()] = object{"type": "object", "properties": properties, "required": required}
}
