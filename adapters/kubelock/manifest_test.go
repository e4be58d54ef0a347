package kubelock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// The manifests of the examples have no unknown fields, and say their purpose.
func TestManifests(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.CronJob
	var deployment appsv1.Deployment
	for name, into := range map[string]any{"cronjob.yaml": &job, "deployment.yaml": &deployment} {
		text, err := os.ReadFile(filepath.Join("../../examples/kubernetes", name))
		if err == nil {
			err = yaml.UnmarshalStrict(text, into)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(text)+"```\n") {
			t.Errorf("docs/howto/kubernetes.md does not show %s as it is", name)
		}
	}
	if job.Kind != "CronJob" || job.APIVersion != "batch/v1" || job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Errorf("the CronJob is %v", job)
	}
	if deployment.Kind != "Deployment" || deployment.APIVersion != "apps/v1" || *deployment.Spec.Replicas < 2 {
		t.Errorf("the Deployment is %v", deployment)
	}
	for _, pod := range []string{job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command[0], deployment.Spec.Template.Spec.Containers[0].Command[0]} {
		if pod != "stile" {
			t.Errorf("a pod runs %q", pod)
		}
	}
}
