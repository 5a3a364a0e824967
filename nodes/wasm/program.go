package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/uniflow-labs/uniflow/nodes/wasm/module"
)

// The modules that a host provides.
const (
	hostModule = "uniflow"
	wasiModule = wasi_snapshot_preview1.ModuleName

	interruptName = "interrupt" // of the host module, which only a rewritten module imports
)

// A program is a module as machine code, with what it imports. The nodes with the same module share
// it, also those of the next generation.
type program struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// compile compiles a module. Its errors are of the module.
func compile(m *module.Module) (p *program, err error) {
	binary, err := m.Interruptible(hostModule, interruptName)
	if err != nil {
		return nil, &Mistake{"module", "the module " + err.Error(), "it must be of WebAssembly 2.0, without threads, tail calls and garbage collection"}
	}
	ctx := context.Background()
	made := &program{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2))}
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Close())
		}
	}()
	if err := made.provide(ctx, m); err != nil {
		return nil, err
	}
	if made.code, err = made.runtime.CompileModule(ctx, binary); err != nil {
		return nil, &Mistake{"module", "the module is not valid: " + err.Error(), "build it again"}
	}
	return made, nil
}

func (p *program) Close() error { return p.runtime.Close(context.Background()) }

// provide makes what modules may import, and checks that the module imports nothing else.
func (p *program) provide(ctx context.Context, m *module.Module) error {
	if _, err := hostFunctions(p.runtime.NewHostModuleBuilder(hostModule)).Instantiate(ctx); err != nil {
		return err
	}
	for _, i := range m.Imports {
		switch i.Module {
		case hostModule:
		case wasiModule:
			if p.runtime.Module(wasiModule) == nil {
				if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
					return err
				}
			}
		default:
			return &Mistake{
				"module", fmt.Sprintf("the module imports the function %s.%s", i.Module, i.Name),
				fmt.Sprintf("modules may import log and now of %s, and WASI preview 1 as %s", hostModule, wasiModule),
			}
		}
		f, ok := p.runtime.Module(i.Module).ExportedFunctionDefinitions()[i.Name]
		if !ok || i.Module == hostModule && i.Name == interruptName {
			return &Mistake{"module", fmt.Sprintf("the module imports %s.%s, which there is not", i.Module, i.Name), "modules may import log and now of " + hostModule + ", and the functions of WASI preview 1"}
		}
		if want := signature(f); i.Type != want {
			return &Mistake{"module", fmt.Sprintf("the module imports %s.%s as %s, it is %s", i.Module, i.Name, i.Type, want), "declare it as docs/wasm.md says"}
		}
	}
	return nil
}

// signature returns the signature of a function of the host.
func signature(f api.FunctionDefinition) module.Signature {
	letters := map[api.ValueType]string{api.ValueTypeI32: "i", api.ValueTypeI64: "I", api.ValueTypeF32: "f", api.ValueTypeF64: "F"}
	var s strings.Builder
	for _, t := range f.ParamTypes() {
		s.WriteString(letters[t])
	}
	s.WriteByte(':')
	for _, t := range f.ResultTypes() {
		s.WriteString(letters[t])
	}
	return module.Signature(s.String())
}
