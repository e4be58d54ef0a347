package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/server"
)

// A description has the parts of OpenAPI that the test reads.
type description struct {
	Tags       []struct{ Description string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}

	text []byte
}

type operation struct {
	Parameters []struct{ Name, In string }
	Responses  map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Required   []string
	Properties map[string]schema
	Items      *schema
	Enum       []string
	AllOf      []schema
}

// base is the last part of a reference.
func base(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// codes are the codes of a failure.
func (s *schema) codes(t *testing.T) (codes []string) {
	t.Helper()
	if len(s.AllOf) != 2 || base(s.AllOf[0].Ref) != "Failure" {
		t.Fatalf("%+v is no Failure with codes", s)
	}
	return s.AllOf[1].Properties["code"].Enum
}

// described returns a server's description, and the operations of the simple API.
func described(t *testing.T, url string) (d description, all map[string]operation) {
	t.Helper()
	d = descriptionBy(t, http.DefaultTransport, url)
	all = map[string]operation{}
	for method, text := range d.Paths["/v1/locks/{name}"] {
		if method != "parameters" {
			all[strings.ToUpper(method)] = operationOf(t, text)
		}
	}
	return d, all
}

func operationOf(t *testing.T, text json.RawMessage) (o operation) {
	t.Helper()
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// descriptionBy asks a server for its description.
func descriptionBy(t *testing.T, by http.RoundTripper, url string) (d description) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if d.text, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.text, &d); err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the description is %s, %v; want JSON", res.Status, err)
	}
	return d
}

// The description has exactly the handlers' methods, parameters and fields.
func TestOpenAPI(t *testing.T) {
	_, url := start(t, newFake(), nil)
	d, all := described(t, url)
	known := server.LockParameters()
	if got, want := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(known)); !slices.Equal(got, want) {
		t.Fatalf("methods %v; the handlers have %v", got, want)
	}
	for method, o := range all {
		in := map[string][]string{}
		for _, p := range o.Parameters {
			in[p.In] = append(in[p.In], p.Name)
		}
		if !slices.Equal(in["query"], known[method]) {
			t.Errorf("%s has %v; its handler takes %v", method, in["query"], known[method])
		}
		if takes := method != "GET"; takes != slices.Equal(in["header"], []string{"Stile-Handle"}) {
			t.Errorf("%s has the headers %v", method, in["header"])
		}
	}
	for method, o := range all {
		if got := base(o.Responses["200"].Content["application/json"].Schema.Ref); got != server.Gives(method) {
			t.Errorf("%s is answered with %s; the handler gives %s", method, got, server.Gives(method))
		}
	}
	for name, goType := range server.Schemas() {
		s, ok := d.Components.Schemas[name]
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		var fields, required []string
		for f := range goType.Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "" && !f.IsExported() {
				continue
			}
			fields = append(fields, key)
			if options != "omitempty" {
				required = append(required, key)
			}
			if !d.is(s.Properties[key], f.Type, options) {
				t.Errorf("%s.%s is %+v; the Go type has %s with %q", name, key, s.Properties[key], f.Type, options)
			}
		}
		if got := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(got, slices.Sorted(slices.Values(fields))) {
			t.Errorf("%s has %v; the Go type has %v", name, got, fields)
		}
		if !slices.Equal(s.Required, required) {
			t.Errorf("%s always has %v; the Go type has %v", name, s.Required, required)
		}
	}
	var there struct{ Components map[string]map[string]any }
	if err := json.Unmarshal(d.text, &there); err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(string(d.text), -1) {
		if there.Components[ref[1]][ref[2]] == nil {
			t.Errorf("there is no %s", ref[0])
		}
	}
}

// is reports whether a schema is that of a Go type, with the options of its tag.
func (d *description) is(s schema, t reflect.Type, options string) bool {
	if t.Kind() == reflect.Pointer {
		return d.is(s, t.Elem(), "")
	}
	name := base(s.Ref)
	if s.Ref != "" {
		s = d.Components.Schemas[name]
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.Type == "object" && name == server.SchemaOf(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return s.Type == "string" || s.Type == "object" && t == reflect.TypeFor[json.RawMessage]()
		}
		return s.Type == "array" && s.Items != nil && d.is(*s.Items, t.Elem(), "")
	case reflect.String:
		return s.Type == "string" || s.Enum != nil
	case reflect.Bool:
		return s.Type == "boolean"
	}
	return s.Type == map[bool]string{false: "integer", true: "string"}[options == "string"]
}

// describedAnswers returns the method, the status, and the code or the type of each answer in a server's description.
func describedAnswers(t *testing.T, url string) map[string]bool {
	t.Helper()
	d, all := described(t, url)
	lines := map[string]bool{}
	for method, o := range all {
		for status, r := range o.Responses {
			if r.Ref != "" {
				r = d.Components.Responses[base(r.Ref)]
			}
			is := r.Content["application/json"].Schema
			if status == "200" {
				lines[fmt.Sprint(method, " 200 ", base(is.Ref))] = true
				continue
			}
			for _, code := range is.codes(t) {
				lines[fmt.Sprint(method, " ", status, " ", code)] = true
			}
		}
	}
	return lines
}

// The description has exactly the handlers' statuses and codes.
func TestOpenAPIErrors(t *testing.T) {
	f := newFake()
	s, url := start(t, broken{f}, nil)
	want := describedAnswers(t, url)
	got := answers(t, f, s, url)
	page, err := os.ReadFile("../docs/serve/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range want {
		if fields := strings.Fields(line); fields[1] != "200" && !strings.Contains(string(page), fields[1]+" `"+fields[2]+"`") {
			t.Errorf("docs/serve/http.md does not say what to do at %s `%s`", fields[1], fields[2])
		}
		if !got[line] {
			t.Errorf("described, but never answered: %s", line)
		}
	}
	for line := range got {
		if !want[line] {
			t.Errorf("answered, but not described: %s", line)
		}
	}
}

// broken is a store that can be shown only while its Enter works.
type broken struct{ *fake }

func (b broken) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if b.enter != nil {
		if _, err := b.enter(ctx, nil); err != nil {
			return nil, err
		}
	}
	return b.Driver.List(ctx, q)
}

// answers sends every request, to a store that works, waits, and fails in each way, and to a server that ends. It records
// the method, the status, and the code or the type of each answer.
func answers(t *testing.T, f *fake, s *server.Server, url string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	u := &user{t, rewriting(url)}
	note := func(method string, a said) {
		what := a.Code
		if a.status == 200 {
			what = server.Gives(method)
		}
		all[fmt.Sprint(method, " ", a.status, " ", what)] = true
	}
	ask := func(method, path, handle string) said {
		t.Helper()
		a, err := u.do(t.Context(), method, path, handle)
		if err != nil {
			t.Fatal(err)
		}
		note(method, a)
		return a
	}
	held := ask("PUT", "a", "")
	waits := ask("PUT", "a?wait=1ms", "")
	ask("GET", "a", "")
	ask("POST", "a", waits.Handle)
	ask("POST", "a", held.Handle)
	ask("DELETE", "a", held.Handle)
	methods := []string{"PUT", "POST", "DELETE", "GET"}
	for _, method := range methods {
		ask(method, "a?x=y", "")
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/locks/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "evil.example"
		a, err := u.send(r)
		if err != nil {
			t.Fatal(err)
		}
		note(method, a)
	}
	closed := guarded(t, newFake(), newDoor(nil))
	for _, method := range methods {
		note(method, simple(t, closed, "nobody", method, "a", ""))
	}
	// The answers that the contract of a driver allows.
	shared := []error{driver.ErrForeign, io.ErrUnexpectedEOF, driver.ErrUnsupported, driver.Unreachable(errors.New("no")), driver.ErrClosed}
	gone := []error{driver.ErrGone, driver.ErrSession, &driver.BrokenError{}}
	for _, err := range slices.Concat(shared, gone, []error{&driver.CapacityError{Have: 1, Want: 2}}) {
		f.enter = func(context.Context, *driver.Claim) (driver.Place, error) { return driver.Place{}, err }
		f.leave = func(*driver.Release) error { return err }
		_, entering := errors.AsType[*driver.CapacityError](err) // only for a claim that enters
		for _, method := range methods {
			if !entering && (method != "GET" || !errors.Is(err, driver.ErrGone)) || method == "PUT" {
				ask(method, "a", held.Handle)
			}
			for len(f.left) > 0 {
				<-f.left
			}
		}
	}
	f.enter, f.leave = nil, nil
	// Two requests about one claim.
	ask("PUT", "b", "")
	waiting := make(chan struct{}, 10)
	f.await = func(ctx context.Context, c *driver.Claim) (driver.Place, error) {
		waiting <- struct{}{}
		return f.Driver.Await(ctx, c)
	}
	ended := make(chan said, 1)
	go func() {
		a, err := u.do(t.Context(), "PUT", "b?wait=1m", myID)
		if err != nil {
			a.Code = err.Error()
		}
		ended <- a
	}()
	<-waiting
	ask("DELETE", "b", myID)
	note("PUT", <-ended)
	s.EndWaits()
	ask("PUT", "b?wait=1m", myID)
	_, few := start(t, newFake(), &server.Options{MaxRate: 2})
	u.by = rewriting(few)
	for range 2 {
		ask("GET", "a", "")
	}
	ask("GET", "a", "")
	ask("PUT", "a", "")
	return all
}
