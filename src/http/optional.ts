import { applyDecorators } from '@nestjs/common';
import { Transform } from 'class-transformer';
import { ValidateIf } from 'class-validator';

/**
 * May be left out, and must be right if it is there. The library's own `IsOptional` lets null through as well: for what
 * narrows an action down, a variable that was not set would then mean everything.
 */
export function Optional(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

/** May be null as well, as answers of ours say of what is absent; null is taken for left out. */
export function Nullable(): PropertyDecorator {
  return applyDecorators(
    Transform(({ value }) => value ?? undefined),
    Optional(),
  );
}
