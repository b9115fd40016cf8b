package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// saver writes a file on SIGTERM, and ends later.
const saver = `trap 'echo saved >"$0"; exit' HUP TERM; echo ready >"$0"; while :; do sleep 0.05; done`

func startMarked(t *testing.T, variable, script string) (*program, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	p, err := start(append(os.Environ(), variable), "/", "sh", "-c", script, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // it may have ended
		<-p.ended
	})
	for deadline := time.Now().Add(time.Minute); ; {
		if content, _ := os.ReadFile(file); string(content) == "ready\n" {
			return p, file
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
		time.Sleep(pollInterval)
	}
}

func TestProgramsAreToldToEndAndMaySave(t *testing.T) {
	d := &desktop{marked: mark + "=" + rand.Text()}
	mine, file := startMarked(t, d.marked, saver)
	other, _ := startMarked(t, mark+"=another", saver)
	d.stopPrograms(time.Now().Add(time.Minute))
	<-mine.ended
	if content, err := os.ReadFile(file); err != nil || string(content) != "saved\n" {
		t.Errorf("%q, %v", content, err)
	}
	if !slices.Contains(processesWith(mark+"=another"), other.command.Process.Pid) {
		t.Error("a program that is not the desktop's was ended")
	}
}

func TestAProgramThatDoesNotEndIsNotWaitedForForever(t *testing.T) {
	d := &desktop{marked: mark + "=" + rand.Text()}
	p, _ := startMarked(t, d.marked, `trap '' HUP TERM; echo ready >"$0"; while :; do sleep 0.05; done`)
	d.stopPrograms(time.Now().Add(10 * pollInterval))
	if !slices.Contains(processesWith(d.marked), p.command.Process.Pid) {
		t.Error("it has ended: this test shows nothing")
	}
}
