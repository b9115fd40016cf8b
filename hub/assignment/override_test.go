package assignment

import "testing"

func TestReservedVariables(t *testing.T) {
	for name, want := range map[string]bool{
		"LD_PRELOAD": true, "LD_LIBRARY_PATH": true, "NVIDIA_VISIBLE_DEVICES": true, "AMD_VISIBLE_DEVICES": true, "KUBERNETES_SERVICE_HOST": true,
		"VDI_DESKTOP": true, "PATH": true, "BASH_ENV": true, "PROMPT_COMMAND": true, "NODE_OPTIONS": true,
		"LDAP_URL": false, "MY_PATH": false, "LANG": false, "HTTP_PROXY": false, "HOME": false,
	} {
		if got := reserved(name); got != want {
			t.Errorf("%s is reserved: %v, want %v", name, got, want)
		}
	}
}
