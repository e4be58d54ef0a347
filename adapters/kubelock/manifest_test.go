package kubelock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The manifests of the examples have no unknown fields, and say their purpose.
func TestManifests(t *testing.T) {
	var job batchv1.CronJob
	var deployment, service appsv1.Deployment
	var balancer corev1.Service
	for name, of := range map[string]struct {
		into any
		page string
	}{
		"cronjob.yaml": {&job, "howto/kubernetes.md"}, "deployment.yaml": {&deployment, "howto/kubernetes.md"},
		"serve.yaml": {&service, "serve/operating.md"}, "serve-service.yaml": {&balancer, "serve/operating.md"},
	} {
		page, err := os.ReadFile(filepath.Join("../../docs", of.page))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("../../examples/kubernetes", name))
		if err == nil {
			err = yaml.UnmarshalStrict(text, of.into)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(text)+"```\n") {
			t.Errorf("docs/%s does not show %s as it is", of.page, name)
		}
	}
	if job.Kind != "CronJob" || job.APIVersion != "batch/v1" || job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Errorf("the CronJob is %v", job)
	}
	if deployment.Kind != "Deployment" || deployment.APIVersion != "apps/v1" || *deployment.Spec.Replicas < 2 {
		t.Errorf("the Deployment is %v", deployment)
	}
	pods := service.Spec.Template
	for key, want := range balancer.Spec.Selector {
		if pods.Labels[key] != want || service.Spec.Selector.MatchLabels[key] != want {
			t.Errorf("the Service selects %s=%s; the pods have %v", key, want, pods.Labels)
		}
	}
	if len(balancer.Spec.Selector) == 0 || *service.Spec.Replicas < 2 || pods.Spec.Containers[0].Command[1] != "serve" ||
		balancer.Spec.Ports[0].Port != pods.Spec.Containers[0].Ports[0].ContainerPort {
		t.Errorf("the Service %v leads to %v", balancer.Spec, pods.Spec)
	}
	for _, pod := range []string{job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command[0], deployment.Spec.Template.Spec.Containers[0].Command[0]} {
		if pod != "stile" {
			t.Errorf("a pod runs %q", pod)
		}
	}
}
