package convert

import (
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// checkAssignment refuses an assignment with a field beyond its limit. The member's API
// server is stricter.
func checkAssignment(w *fleetv1.Assignment) error {
	c := checkIdentity(w.GetSessionUid(), w.GetNamespace(), w.GetName(), w.GetEpoch())
	c.Token("spec_hash", w.GetSpecHash(), MaxToken)
	c.Token("proof", w.GetProof(), MaxProof)
	c.optionalName("session_namespace", w.GetSessionNamespace())
	c.optionalName("session_name", w.GetSessionName())
	for _, f := range []struct{ name, text string }{
		{"user", w.GetUser()}, {"template", w.GetTemplate()}, {"template_revision", w.GetTemplateRevision()},
		{"run_state", w.GetRunState()}, {"failover_mode", w.GetFailoverMode()}, {"host", w.GetHost()},
	} {
		c.text(f.name, f.text, MaxName)
	}
	c.Count("secrets", len(w.GetSecrets()), MaxList)
	for _, s := range w.GetSecrets() {
		c.text("secrets.name", s.GetName(), MaxName)
		c.text("secrets.version", s.GetVersion(), MaxToken)
		c.text("secrets.type", s.GetType(), MaxName)
		c.Count("secrets.data", len(s.GetData()), maxArguments)
		for key, value := range s.GetData() {
			c.text("secrets.data", key, MaxName)
			c.text("secrets.data", string(value), maxArgument)
		}
	}
	c.desktop(w.GetDesktop())
	c.desktopLists(w.GetDesktop())
	return c.Err
}

func (c *Checks) desktop(d *fleetv1.Desktop) {
	h := d.GetHome()
	for _, f := range []struct{ name, text string }{
		{"image", d.GetImage()}, {"image_pull_policy", d.GetImagePullPolicy()}, {"protocol", d.GetProtocol()},
		{"path", d.GetPath()}, {"runtime_class_name", d.GetRuntimeClassName()},
		{"ingress_class_name", d.GetIngressClassName()}, {"tls_secret_name", d.GetTlsSecretName()},
		{"config_mount_path", d.GetConfigMountPath()}, {"access_secret_name", d.GetAccessSecretName()},
		{"password_env", d.GetPasswordEnv()}, {"activity_path", d.GetActivityPath()},
		{"shared_memory", d.GetSharedMemory()}, {"priority_class_name", d.GetPriorityClassName()},
		{"network_policy.mode", d.GetNetworkPolicy().GetMode()},
		{"home.mode", h.GetMode()}, {"home.claim_name", h.GetClaimName()}, {"home.size", h.GetSize()},
		{"home.storage_class_name", h.GetStorageClassName()}, {"home.mount_path", h.GetMountPath()},
		{"home.access_mode", h.GetAccessMode()}, {"home.retention", h.GetRetention()},
	} {
		c.text("desktop."+f.name, f.text, maxText)
	}
}

func (c *Checks) desktopLists(d *fleetv1.Desktop) {
	c.texts("desktop.image_pull_secrets", d.GetImagePullSecrets(), MaxList, MaxName)
	c.texts("desktop.command", d.GetCommand(), maxArguments, maxArgument)
	c.texts("desktop.args", d.GetArgs(), maxArguments, maxArgument)
	c.texts("desktop.network_policy.egress_cidrs", d.GetNetworkPolicy().GetEgressCidrs(), maxArguments, MaxName)
	c.pairs("desktop.resources", d.GetResources())
	c.pairs("desktop.node_selector", d.GetNodeSelector())
	c.Count("desktop.env", len(d.GetEnv()), maxArguments)
	for _, e := range d.GetEnv() {
		c.text("desktop.env", e.GetName(), maxText)
		c.text("desktop.env", e.GetValue(), maxArgument)
	}
	c.Count("desktop.tolerations", len(d.GetTolerations()), MaxList)
	for _, t := range d.GetTolerations() {
		c.text("desktop.tolerations.key", t.GetKey(), maxText)
		c.text("desktop.tolerations.operator", t.GetOperator(), maxText)
		c.text("desktop.tolerations.value", t.GetValue(), maxText)
		c.text("desktop.tolerations.effect", t.GetEffect(), maxText)
	}
	c.Count("desktop.files", len(d.GetFiles()), MaxList)
	for _, f := range d.GetFiles() {
		c.text("desktop.files.name", f.GetName(), MaxName)
		c.text("desktop.files.content", f.GetContent(), maxArgument)
	}
	c.Count("desktop.secrets", len(d.GetSecrets()), MaxList)
	for _, u := range d.GetSecrets() {
		c.text("desktop.secrets.name", u.GetName(), MaxName)
		c.text("desktop.secrets.mount_path", u.GetMountPath(), maxText)
		c.Count("desktop.secrets.env", len(u.GetEnv()), maxArguments)
		for _, e := range u.GetEnv() {
			c.text("desktop.secrets.env", e.GetName(), maxText)
			c.text("desktop.secrets.env", e.GetKey(), MaxName)
		}
	}
}

func (c *Checks) texts(field string, list []string, most, longest int) {
	c.Count(field, len(list), most)
	for _, text := range list {
		c.text(field, text, longest)
	}
}

func (c *Checks) pairs(field string, list map[string]string) {
	c.Count(field, len(list), MaxList)
	for key, value := range list {
		c.text(field, key, maxText)
		c.text(field, value, maxText)
	}
}
