package kubelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// The manifests of the examples are valid by the schemas that Kubernetes publishes, as client-go contains them.
func TestManifestsBySchema(t *testing.T) {
	for name, of := range map[string]struct{ group, schema, container string }{
		"cronjob.yaml":    {"apis/batch/v1", "io.k8s.api.batch.v1.CronJob", "- name: nightly\n"},
		"deployment.yaml": {"apis/apps/v1", "io.k8s.api.apps.v1.Deployment", "- name: scheduler\n"},
		"serve.yaml":      {"apis/apps/v1", "io.k8s.api.apps.v1.Deployment", "- name: stile\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../examples/kubernetes", name))
			if err != nil {
				t.Fatal(err)
			}
			schema, err := published(of.group, of.schema)
			if err != nil {
				t.Fatal(err)
			}
			if err := bySchema(schema, text); err != nil {
				t.Error(err)
			}
			for _, wrong := range []struct{ old, with, want string }{
				{of.container, "- stdin: true\n", "name in body is required"},
				{"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: soon", "must be of type integer"},
			} {
				broken := strings.Replace(string(text), wrong.old, wrong.with, 1)
				if err := bySchema(schema, []byte(broken)); err == nil || !strings.Contains(err.Error(), wrong.want) {
					t.Errorf("with %q: %v; want %q", wrong.with, err, wrong.want)
				}
			}
		})
	}
}

// bySchema returns how a manifest violates its schema.
func bySchema(schema *spec.Schema, text []byte) error {
	var manifest any
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return err
	}
	result := validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(manifest)
	return errors.Join(result.Errors...)
}

// published returns a schema of a group of the API, without references to others.
func published(group, name string) (*spec.Schema, error) {
	groups, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		return nil, err
	}
	if groups[group] == nil {
		return nil, fmt.Errorf("no schemas of %s", group)
	}
	text, err := groups[group].Schema("application/json")
	if err != nil {
		return nil, err
	}
	var file struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	whole, err := json.Marshal(resolved(file.Components.Schemas[name], file.Components.Schemas))
	if err != nil {
		return nil, err
	}
	schema := &spec.Schema{}
	return schema, json.Unmarshal(whole, schema)
}

// resolved replaces references by their schemas. Schemas of manifests do not refer to themselves.
func resolved(v any, schemas map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			return resolved(schemas[strings.TrimPrefix(ref, "#/components/schemas/")], schemas)
		}
		if v["format"] == "int-or-string" { // unknown to the validator; oneOf repeats it
			delete(v, "format")
		}
		whole := map[string]any{}
		for key, part := range v {
			whole[key] = resolved(part, schemas)
		}
		return whole
	case []any:
		var whole []any
		for _, part := range v {
			whole = append(whole, resolved(part, schemas))
		}
		return whole
	}
	return v
}
